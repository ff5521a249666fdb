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
			c := enter(w, v, o)
			if c.verdict == arbiter.Entered {
				t.Fatal("entered")
			}
			w.mustBe(h, arbiter.Lost)
			w.exit(v, o, arbiter.WasLost)
			w.exit(v, o, arbiter.WasLost)
			w.exit(v, o, arbiter.NotHeld)
			if c.verdict == arbiter.Queued {
				c.quit()
			}
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
			again := w.enter(v, o, c.entered, true, false).must(arbiter.Ask)
			w.mustBe(h, arbiter.Lost)
			if c.entered == readSide {
				again.standing(nil).reads(0)
			} else {
				again.writes(0)
			}
			w.Released("a", w.exit(v, o, c.entered, arbiter.Release).Lease)
			w.exit(v, o, c.held, arbiter.WasLost)
			w.exit(v, o, c.held, arbiter.NotHeld)
		})
	}
}

// The owner of a call that asks has got a hold meanwhile, which is past its deadline when
// the answer comes.
func TestRWAHoldPastItsDeadlineIsNotEnteredByAnAnswer(t *testing.T) {
	w := newRWWorld(t)
	a, b, o := w.handle(), w.handle(), new(arbiter.Owner)
	one := w.fixedRLock(a, o).must(arbiter.Ask)
	two := w.fixedRLock(b, o).must(arbiter.Ask)
	three := w.fixedRLock(b, o).must(arbiter.Ask)
	h := one.reads(0)
	h.Lease.until.Store(5)
	w.clock.Store(5)
	three.standing(nil)
	w.mustBe(h, arbiter.Lost)
	fresh := two.reads(0)
	if fresh == h {
		t.Fatal("entered")
	}
	fresh.Lease.until.Store(6)
	w.clock.Store(6)
	lease := newRWLease(0)
	if got, used := w.GrantRead(three.Waiter, lease, true, 0); got == fresh || !used {
		t.Fatalf("GrantRead = %v, %t", got, used)
	}
	w.mustBe(fresh, arbiter.Lost)
	w.exit(b, o, readSide, arbiter.Release)
	w.exit(b, o, readSide, arbiter.WasLost)
	w.exit(b, o, readSide, arbiter.WasLost)
	w.exit(b, o, readSide, arbiter.NotHeld)
}
