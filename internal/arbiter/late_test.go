package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// A frozen process may wake up after the deadline of its hold, and before its watchdog:
// whoever would enter the hold again loses it.
func TestAHoldPastItsDeadlineIsNotEnteredAgain(t *testing.T) {
	for name, enter := range map[string]func(w *world, v *handle, o *owner) *call{
		"Lock": (*world).call, "TryLock": (*world).try,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			v, o := w.handle("a"), new(owner)
			h := w.take(v, o, 0)
			next := w.call(w.handle("a"), nil).must(arbiter.Queued)
			h.Lease.until.Store(5)
			w.now.Store(4)
			if !w.Reenter(v, o) {
				t.Fatal("not entered while it was certain")
			}
			w.now.Store(5)
			if w.Reenter(v, o) {
				t.Fatal("entered")
			}
			w.mustBe(h, arbiter.Live) // Enter follows, which loses it
			for range 2 {             // as often as it has locked
				enter(w, v, o).must(arbiter.UnlockFirst)
				w.mustBe(h, arbiter.Lost)
				w.exit(v, o, arbiter.WasLost)
			}
			w.exit(v, o, arbiter.NotHeld)
			next.mustAsk().grant(0)
			w.leave(next.Via, nil)
		})
	}
}

// Each side of a read-write lock, by each of the ways in.
func TestRWAHoldPastItsDeadlineIsNotEnteredAgain(t *testing.T) {
	for name, c := range map[string]struct{ held, entered arbiter.Side }{
		"reader reads": {readSide, readSide}, "reader writes": {readSide, writeSide},
		"writer writes": {writeSide, writeSide}, "writer reads": {writeSide, readSide},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRWWorld(t)
			v, o := w.handle(), new(arbiter.Owner)
			var h *rwHold
			if c.held == readSide {
				h = w.rlock(v, o).must(arbiter.Ask).reads(rwNever)
			} else {
				h = w.lock(v, o).must(arbiter.Ask).writes(0)
			}
			h.Lease.until.Store(5)
			w.clock.Store(5)
			if c.entered == readSide && w.Join(v, o, true) {
				t.Fatal("joined")
			}
			w.mustBe(h, arbiter.Live)
			again := func() *rwCall { return w.enter(v, o, c.entered, true, false) }
			again().must(arbiter.UnlockFirst)
			w.mustBe(h, arbiter.Lost)
			w.exit(v, o, c.held, arbiter.WasLost)
			w.exit(v, o, c.held, arbiter.NotHeld)
			w.Quit(again().must(arbiter.Ask).Waiter)
		})
	}
}
