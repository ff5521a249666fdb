package main

import (
	"context"
	"strconv"
	"time"
)

func numbered(name string, i int) string { return name + ":" + strconv.Itoa(i) }

// pairs locks and unlocks one lock that nobody else wants, one pair after another, and
// returns how long each took.
func (w *worker) pairs(t *task) (out outcome) {
	ctx := context.Background()
	if t.Cancel {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	m := w.lib.mutex(t.Name)
	out.Took = make([]int64, 0, t.Pairs)
	before := usedNow()
	for range t.Pairs {
		start := time.Now()
		err := m.Lock(ctx)
		if err == nil {
			err = m.Unlock(ctx)
		}
		out.Took = append(out.Took, int64(time.Since(start)))
		if err != nil {
			out.failed(err)
		}
	}
	out.Used = usedNow().since(before)
	return out
}

// lock waits for a lock and keeps it. It tells when it had it.
func (w *worker) lock(t *task) outcome {
	if w.held[t.Name] == nil {
		w.held[t.Name] = w.lib.mutex(t.Name)
	}
	m := w.held[t.Name]
	r := newRunner(context.Background())
	w.kept = r.cancel // rueidislock's holds end with it
	r.cancel = func(cause error) {
		if cause != nil {
			w.kept(cause)
		}
	}
	go func() {
		defer close(r.ended)
		if err := m.Lock(r.ctx); err == nil {
			r.out.At = monotonic()
			r.out.Acquired = 1
		} else if r.ctx.Err() == nil {
			r.out.failed(err)
		}
	}()
	out := watch([]*runner{r}, time.Now().Add(t.Limit), t.Stuck, hungAfter)
	if out.Hung == 0 {
		out.At = r.out.At
	}
	return out
}

// free ends what lock began. It tells when it began to.
func (w *worker) free(t *task) (out outcome) {
	out.At = monotonic()
	if err := w.held[t.Name].Unlock(context.Background()); err != nil {
		out.failed(err)
	}
	w.kept(nil)
	return out
}
