package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// herdAfter is how long a herd goes on after it was measured, so that it has its full
// size until then.
const herdAfter = 100 * time.Millisecond

// herd locks and unlocks one name, in one goroutine, with a short section, and counts
// within the span, which begins after the warm-up. The longest wait may have begun before
// and may end later. Nothing else runs meanwhile: there are many such processes.
func (w *worker) herd(t *task) (out outcome) {
	from := t.Start + int64(t.WarmUp)
	to := from + int64(t.Span)
	end := to + int64(herdAfter)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stop := w.watchHerd(cancel, end, t.Stuck)
	defer stop()
	m := w.lib.mutex(t.Name)
	sleepUntil(t.Start)
	before := usedNow()
	for called := t.Start; called < end; called = monotonic() {
		err := m.Lock(ctx)
		got := monotonic()
		if got >= from {
			out.Longest = max(out.Longest, time.Duration(got-called))
		}
		if errors.Is(context.Cause(ctx), errStuck) {
			out.Stuck = 1
			break
		}
		if err != nil {
			out.failed(err)
			time.Sleep(time.Millisecond)
			continue
		}
		out.Acquired++
		if got >= from && got < to {
			out.Counted++
		}
		nap(t.Section)
		w.shared.count()
		if err := m.Unlock(ctx); err != nil {
			out.failed(err)
		}
	}
	out.Used = usedNow().since(before)
	return out
}

// watchHerd cancels a waiter when, after the end, nobody has got the lock for as long as
// stuck says.
func (w *worker) watchHerd(cancel context.CancelCauseFunc, end int64, stuck time.Duration) (stop func()) {
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		wait, last := time.Duration(end-monotonic())+stuck, int64(-1)
		for {
			select {
			case <-ended:
				return
			case <-time.After(wait):
			}
			now := w.shared.cell(counted).Load()
			if now == last {
				cancel(errStuck)
				return
			}
			wait, last = stuck, now
		}
	}()
	return func() {
		close(ended)
		<-stopped
	}
}

func sleepUntil(at int64) { time.Sleep(time.Duration(at - monotonic())) }

// nap sleeps for d. time.Sleep takes a whole millisecond for less than one, in a process
// that does nothing else.
func nap(d time.Duration) {
	for end := monotonic() + int64(d); ; {
		left := end - monotonic()
		if left <= 0 {
			return
		}
		tv := unix.NsecToTimeval(left)
		_, _ = unix.Select(0, nil, nil, nil, &tv) // an interrupted one is taken up again
	}
}
