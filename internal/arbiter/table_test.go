package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

func TestOneCallContendsAndTheOthersQueue(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")

	first := w.call(v, nil).must(arbiter.Ask)
	second := w.call(v, nil).must(arbiter.Queued)
	third := w.call(w.handle("a"), new(owner)).must(arbiter.Queued)
	w.try(v, nil).must(arbiter.Busy)
	w.try(v, new(owner)).must(arbiter.Busy)
	w.mustWaiting("a", 2)

	h := first.grant(0)
	w.mustBe(h, arbiter.Live)
	w.try(v, nil).must(arbiter.Busy)
	second.mustWait()
	third.mustWait()

	w.exit(v, nil, arbiter.Release)
	w.mustBe(h, arbiter.Ended)
	// Until its release is over nobody of this process asks.
	w.try(v, nil).must(arbiter.Busy)
	second.mustWait()

	w.Released("a", h.Lease)
	second.mustAsk()
	third.mustWait()
	w.try(v, nil).must(arbiter.Busy)
	second.grant(0)
	w.leave(v, nil)
	third.mustAsk().grant(0)
	w.leave(third.Via, third.Owner)
}

func TestTryOfAFreeLockContends(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	c := w.try(v, nil).must(arbiter.Ask)
	w.Quit(c.Waiter)
	if w.Len() != 0 {
		t.Fatal("an abandoned try is remembered")
	}
}

func TestNamesDoNotDisturbEachOther(t *testing.T) {
	w := newWorld(t)
	names := []string{"a", "b", "c", "", "a\x00"}
	var handles []*handle
	for _, name := range names {
		v := w.handle(name)
		if v.Name() != name || !v.Valid() {
			t.Fatalf("handle of %q has name %q, valid %v", name, v.Name(), v.Valid())
		}
		handles = append(handles, v)
		w.take(v, nil, 0)
	}
	if w.Len() != len(names) || len(w.Holds()) != len(names) {
		t.Fatalf("%d names, %d holds, want %d", w.Len(), len(w.Holds()), len(names))
	}
	for _, v := range handles {
		w.leave(v, nil)
	}
}

func TestReentryCountsOverAllHandles(t *testing.T) {
	w := newWorld(t)
	v, u := w.handle("a"), w.handle("a")
	o := new(owner)

	h := w.take(v, o, 0)
	w.call(u, o).must(arbiter.Entered)
	w.try(u, o).must(arbiter.Entered)
	if !w.Reenter(v, o) {
		t.Fatal("Reenter refused the owner that holds")
	}
	if v.Latest() != h || u.Latest() != h {
		t.Fatal("a handle does not remember the hold entered through it")
	}
	for range 3 {
		w.exit(v, o, arbiter.Kept)
		w.mustBe(h, arbiter.Live)
	}
	w.leave(u, o)
	w.mustBe(h, arbiter.Ended)
	w.exit(v, o, arbiter.NotHeld)
	w.exit(u, nil, arbiter.NotHeld)
}

func TestOnlyTheOwnerReenters(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	a, b := new(owner), new(owner)
	if w.Reenter(v, a) {
		t.Fatal("Reenter of a lock that nobody holds")
	}
	c := w.call(v, a).must(arbiter.Ask)
	if w.Reenter(v, a) {
		t.Fatal("Reenter while the owner still asks")
	}
	c.grant(0)
	if w.Reenter(v, b) || w.Reenter(v, nil) {
		t.Fatal("Reenter let in another owner")
	}
	w.leave(v, a)

	w.take(v, nil, 0)
	if w.Reenter(v, nil) {
		t.Fatal("an anonymous call entered again")
	}
	anon := w.call(v, nil).must(arbiter.Queued)
	if w.Quit(anon.Waiter) != nil {
		t.Fatal("Quit of a queued call returned a hold")
	}
	w.leave(v, nil)
}

func TestHoldThatIsLeavingIsNotEnteredAgain(t *testing.T) {
	w := newWorld(t)
	v, o := w.handle("a"), new(owner)
	h := w.take(v, o, 5)
	w.exit(v, o, arbiter.Release)
	if w.Reenter(v, o) {
		t.Fatal("Reenter of a hold whose release is under way")
	}
	w.exit(v, o, arbiter.NotHeld)
	if w.Lookup("a") != nil || len(w.Holds()) != 0 {
		t.Fatal("a hold whose release is under way counts as live")
	}
	c := w.call(v, o).must(arbiter.Queued)
	w.Released("a", h.Lease)
	c.mustAsk().grant(0)
	w.leave(v, o)
}

func TestCallsOfOneOwnerEnterTogether(t *testing.T) {
	for _, how := range []string{"granted by Redis", "passed on"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			v, u := w.handle("a"), w.handle("a")
			o := new(owner)

			asker := w.call(u, nil)
			first := w.call(v, o).must(arbiter.Queued)
			stranger := w.call(u, nil).must(arbiter.Queued)
			second := w.call(u, o).must(arbiter.Queued)
			third := w.fixed(v, o).must(arbiter.Queued) // cannot take over, but can enter again
			other := w.call(u, new(owner)).must(arbiter.Queued)

			var h *hold
			if how == "passed on" {
				asker.must(arbiter.Ask).grant(1)
				w.exit(u, nil, arbiter.Passed)
				h = first.mustHold()
				if !h.Passed {
					t.Fatal("the hold does not say that it was passed on")
				}
			} else {
				w.Quit(asker.must(arbiter.Ask).Waiter)
				h = first.mustAsk().grant(0)
			}
			if second.mustHold() != h || third.mustHold() != h {
				t.Fatal("calls of one owner have different holds")
			}
			stranger.mustWait()
			other.mustWait()
			w.mustWaiting("a", 2)
			if v.Latest() != h || u.Latest() != h {
				t.Fatal("a handle does not remember the hold")
			}

			w.exit(v, o, arbiter.Kept)
			w.exit(v, o, arbiter.Kept)
			w.leave(u, o)
			stranger.mustAsk().grant(0)
			w.leave(u, nil)
			other.mustAsk().grant(0)
			w.leave(u, other.Owner)
		})
	}
}

func TestAbandonedContentionPassesToTheNext(t *testing.T) {
	w := newWorld(t)
	v, o := w.handle("a"), new(owner)
	asker := w.call(v, o).must(arbiter.Ask)
	second := w.call(v, nil).must(arbiter.Queued)
	same := w.call(v, o).must(arbiter.Queued)
	w.Quit(asker.Waiter)
	second.mustAsk()
	same.mustWait()
	w.Quit(second.Waiter)
	same.mustAsk()
	w.Quit(same.Waiter)
}

func TestLostHoldMakesTheNextContend(t *testing.T) {
	w := newWorld(t)
	v, u := w.handle("a"), w.handle("a")
	h := w.take(v, nil, 5)
	next := w.call(u, nil).must(arbiter.Queued)
	if w.Lose("a", h.Lease) != h {
		t.Fatal("Lose did not return the hold")
	}
	w.mustBe(h, arbiter.Lost)
	next.mustAsk()
	if w.Lose("a", h.Lease) != nil {
		t.Fatal("a hold was lost twice")
	}
	w.exit(v, nil, arbiter.WasLost)
	next.grant(0)
	if w.Lose("a", h.Lease) != nil || w.Lose("b", h.Lease) != nil {
		t.Fatal("Lose of a lease that is not current")
	}
	w.Released("a", h.Lease) // late, and of no effect
	w.mustBe(u.Latest(), arbiter.Live)
	w.leave(u, nil)
}

func TestLossDuringTheReleaseMakesTheNextContend(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	h := w.take(v, nil, 0)
	next := w.call(v, nil).must(arbiter.Queued)
	w.exit(v, nil, arbiter.Release)
	if w.Lose("a", h.Lease) != nil {
		t.Fatal("a hold that had been unlocked was lost")
	}
	w.mustBe(h, arbiter.Ended)
	next.mustAsk()
	next.grant(0)
	// The end of the release that was given up says nothing of the new hold.
	w.Released("a", h.Lease)
	w.mustBe(v.Latest(), arbiter.Live)
	w.leave(v, nil)
}

// A waiter is used again by later calls: a signal that its call did not take must
// not be taken for one of theirs.
func TestFreedWaiterHasNoSignalLeft(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	for range 100 {
		asker := w.call(v, nil).must(arbiter.Ask)
		next := w.call(v, nil).must(arbiter.Queued)
		w.Quit(asker.Waiter)
		w.Quit(next.Waiter) // signalled, and has not looked
		w.Free(asker.Waiter)
		w.Free(next.Waiter)
	}
	a := w.call(v, nil)
	b := w.call(v, nil)
	a.mustWait()
	b.mustWait()
	w.Quit(a.Waiter)
	w.Quit(b.mustAsk().Waiter)
}
