package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// roam locks and unlocks names at random, one at a time: a share of its own, the others those that all workers use.
// Without a span it visits each of its own names, and each of the others, twice.
func (w *worker) roam(t *task) outcome {
	r := newRunner(context.Background())
	start := time.Now()
	if t.Start > 0 {
		start = start.Add(time.Duration(t.Start - monotonic()))
	}
	end := start.Add(t.Span)
	go func() {
		defer close(r.ended)
		time.Sleep(time.Until(start))
		if t.Span > 0 {
			w.wander(r, t, end)
			return
		}
		for i := range 2 * t.To {
			r.visit(w.value(t, t.Own, i%t.To), time.Now().Add(time.Hour))
			r.visit(w.value(t, t.Name, i%t.To), time.Now().Add(time.Hour))
		}
	}()
	time.Sleep(time.Until(start))
	before := usedNow()
	out := watch([]*runner{r}, end, t.Stuck, hungAfter)
	out.Used = usedNow().since(before)
	return out
}

func (w *worker) wander(r *runner, t *task, end time.Time) {
	for time.Now().Before(end) && r.ctx.Err() == nil {
		of := t.Name
		if rand.IntN(100) < t.Percent {
			if of = t.Own; t.Visits > 0 && rand.IntN(t.Visits) == 0 {
				of = t.Foreign
			}
		}
		r.visit(w.value(t, of, rand.IntN(t.To)), end)
	}
}

// visit locks and unlocks m, and counts that if it was locked before the end.
func (r *runner) visit(m mutex, end time.Time) {
	called := time.Now()
	if err := m.Lock(r.ctx); err != nil {
		if r.ctx.Err() == nil { // else the watchdog counts it
			r.out.failed(err)
			time.Sleep(time.Millisecond)
		}
		return
	}
	got := time.Now()
	r.acquired.Add(1)
	r.out.Acquired++
	r.out.Longest = max(r.out.Longest, got.Sub(called))
	if got.Before(end) {
		r.out.Counted++
	}
	if err := m.Unlock(r.ctx); err != nil {
		r.out.failed(err)
	}
}

// value returns the lock of a name, which is made once.
func (w *worker) value(t *task, of string, i int) mutex {
	name := numbered(of, i)
	m := w.values[name]
	if m == nil {
		m = w.lib.mutex(name)
		if k, ok := w.lib.(keeper); ok && t.Keep {
			m = k.kept(name)
		}
		w.values[name] = m
	}
	return m
}
