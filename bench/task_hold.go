package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// holdings are the many locks that a worker holds.
type holdings struct {
	locks  []mutex
	cancel context.CancelFunc // of the renewals, and of rueidislock's holds
	loops  sync.WaitGroup
	failed atomic.Int64
	first  atomic.Pointer[string]
}

// hold takes the locks of the numbers From to To, and keeps them. A library that does
// not renew gets the usual: for each lock a goroutine that renews it every third of
// the lease.
func (w *worker) hold(t *task) (out outcome) {
	h := &holdings{locks: make([]mutex, t.To-t.From)}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, w.many = cancel, h
	end := time.Now().Add(t.Limit)
	var mu sync.Mutex // protects out
	spread(t, func(i int) bool {
		m := w.lib.mutex(numbered(t.Name, i))
		if err := m.Lock(ctx); err != nil {
			mu.Lock()
			defer mu.Unlock()
			out.failed(err)
			return time.Now().Before(end)
		}
		h.locks[i-t.From] = m
		if r, ok := m.(refresher); ok {
			h.loops.Go(func() { h.renew(ctx, r, w.job.Lease/3) })
		}
		return time.Now().Before(end)
	})
	for _, m := range h.locks {
		if m != nil {
			out.Acquired++
		}
	}
	return out
}

func (h *holdings) renew(ctx context.Context, m refresher, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := m.Refresh(ctx); err != nil && ctx.Err() == nil {
				h.failed.Add(1)
				text := err.Error()
				h.first.CompareAndSwap(nil, &text)
			}
		}
	}
}

// spend returns what the worker uses in a span of doing nothing else, and the errors of
// renewals so far.
func (w *worker) spend(t *task) (out outcome) {
	before := usedNow()
	time.Sleep(t.Span)
	out.Used = usedNow().since(before)
	if w.many != nil {
		out.Errors = w.many.failed.Swap(0)
		if text := w.many.first.Swap(nil); text != nil {
			out.FirstError = *text
		}
	}
	return out
}

// drop unlocks everything that hold took.
func (w *worker) drop(t *task) (out outcome) {
	h := w.many
	w.many = nil
	h.cancel()
	h.loops.Wait()
	t.From, t.To = 0, len(h.locks)
	var mu sync.Mutex // protects out
	spread(t, func(i int) bool {
		if m := h.locks[i]; m != nil {
			if err := m.Unlock(context.Background()); err != nil {
				mu.Lock()
				defer mu.Unlock()
				out.failed(err)
			}
		}
		return true
	})
	return out
}

// churn locks and unlocks each of the names of the numbers From to To once.
func (w *worker) churn(t *task) (out outcome) {
	var mu sync.Mutex // protects out
	before := usedNow()
	spread(t, func(i int) bool {
		m := w.lib.mutex(numbered(t.Name, i))
		err := m.Lock(context.Background())
		if err == nil {
			err = m.Unlock(context.Background())
		}
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			out.failed(err)
		}
		return true
	})
	out.Used = usedNow().since(before)
	out.Acquired = int64(t.To - t.From)
	return out
}

// spread calls f for the numbers From to To on the task's goroutines, until it returns
// false.
func spread(t *task, f func(i int) bool) {
	var wg sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(t.From))
	for range t.Goroutines {
		wg.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= t.To || !f(i) {
					return
				}
			}
		})
	}
	wg.Wait()
}
