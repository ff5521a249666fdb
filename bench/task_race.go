package main

import (
	"context"
	"time"
)

// race lets goroutines lock and unlock for the task's span: on one name, or each on its
// own, or readers and writers. It ends when all have returned, or were given up.
func (w *worker) race(t *task) outcome {
	runners := make([]*runner, t.Goroutines)
	start := time.Now()
	if t.Start > 0 {
		start = start.Add(time.Duration(t.Start - monotonic()))
	}
	end := start.Add(t.Span)
	for i := range runners {
		name := t.Name
		if t.Distinct {
			name = numbered(t.Name, i)
		}
		r := newRunner(context.Background())
		runners[i] = r
		m := w.sides(t, name)
		go func() {
			defer close(r.ended)
			time.Sleep(time.Until(start))
			r.run(w.shared, m, t, end)
		}()
	}
	time.Sleep(time.Until(start))
	before := usedNow()
	out := watch(runners, end, t.Stuck, hungAfter)
	out.Used = usedNow().since(before)
	return out
}

// run locks and unlocks until the end.
func (r *runner) run(s *shared, m mutex, t *task, end time.Time) {
	o := &r.out
	critical := inSection(s, t)
	for {
		called := time.Now()
		if !called.Before(end) {
			return
		}
		if t.Percent > 0 && !turnToWrite(s, r, t.Percent) {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		if err := m.Lock(r.ctx); err != nil {
			if r.ctx.Err() != nil {
				return // counted by the watchdog
			}
			o.failed(err)
			time.Sleep(time.Millisecond)
			continue
		}
		got := time.Now()
		r.acquired.Add(1)
		o.Acquired++
		o.Longest = max(o.Longest, got.Sub(called))
		if got.Before(end) {
			o.Counted++
		}
		if !critical() {
			o.Violations++
		}
		if err := m.Unlock(r.ctx); err != nil {
			o.failed(err)
		}
	}
}

// inSection returns what is done with the lock held. It reports false if somebody was
// there who must not be.
func inSection(s *shared, t *task) func() bool {
	switch {
	case t.Side != "":
		write := t.Side == "write"
		done := s.cell(reads)
		return func() bool {
			ok := s.enter(write)
			s.leave(write)
			if !write {
				done.Add(1)
			}
			return ok
		}
	case t.Distinct:
		return func() bool { return true }
	default:
		return func() bool { s.count(); return true }
	}
}

// turnToWrite reports whether a writer has written less than so many per cent of what
// was read.
func turnToWrite(s *shared, r *runner, percent int) bool {
	return r.out.Acquired*100 < s.cell(reads).Load()*int64(percent)
}
