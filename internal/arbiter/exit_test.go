package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

func TestHandOffIsInFIFOOrderAsFarAsTheRulesAllow(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	h := w.take(v, nil, 2)
	var queue []*call
	for range 4 {
		queue = append(queue, w.call(v, nil).must(arbiter.Queued))
	}
	for i := range 2 {
		w.now.Store(int64(100 + i))
		old := h
		if got := w.exit(v, nil, arbiter.Passed); got != old {
			t.Fatal("Exit did not return the hold it ended")
		}
		h = queue[i].mustHold()
		w.mustBe(old, arbiter.Ended)
		w.mustBe(h, arbiter.Live)
		switch {
		case h == old || !h.Passed || h.Lease != old.Lease:
			t.Fatal("a hold that is passed on is a new one on the same lease")
		case h.Token != old.Token+1:
			t.Fatalf("token %d follows %d", h.Token, old.Token)
		case h.Since != int64(100+i):
			t.Fatalf("the hold began at %d, want %d", h.Since, 100+i)
		case v.Latest() != h:
			t.Fatal("the handle does not remember the new hold")
		}
		w.mustWaiting("a", 3-i)
	}
	// The tenure is spent: the third asks Redis, on equal terms with others.
	w.exit(v, nil, arbiter.Release)
	queue[2].mustWait()
	w.Released("a", h.Lease)
	h = queue[2].mustAsk().grant(0)
	if h.Passed {
		t.Fatal("a hold from Redis says it was passed on")
	}
	queue[3].mustWait()
	w.leave(v, nil)
	queue[3].mustAsk().grant(0)
	w.leave(v, nil)
}

func TestNothingIsPassedWhenNobodyWaits(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	h := w.take(v, nil, 5)
	w.leave(v, nil)
	if h.Lease.passes != 5 {
		t.Fatal("a pass was used up for nobody")
	}
}

// A call that cannot take over a hold is neither passed one nor overtaken.
func TestCallThatCannotTakeOverMakesARealRelease(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	h := w.take(v, nil, 5)
	fixed := w.fixed(v, nil).must(arbiter.Queued)
	next := w.call(v, nil).must(arbiter.Queued)
	w.exit(v, nil, arbiter.Release)
	fixed.mustWait()
	next.mustWait()
	if h.Lease.passes != 5 {
		t.Fatal("the rules were asked for a pass that cannot be")
	}
	w.Released("a", h.Lease)
	fixed.mustAsk().grant(1)
	w.exit(v, nil, arbiter.Passed)
	next.mustHold()
	w.leave(v, nil)
}

func TestExitWithoutAHoldIsNotHeld(t *testing.T) {
	w := newWorld(t)
	v, u := w.handle("a"), w.handle("a")
	a, b := new(owner), new(owner)
	w.exit(v, nil, arbiter.NotHeld)
	w.exit(v, a, arbiter.NotHeld)

	c := w.call(v, a).must(arbiter.Ask)
	w.exit(v, a, arbiter.NotHeld) // asks only
	w.exit(v, nil, arbiter.NotHeld)
	c.grant(0)
	w.exit(v, b, arbiter.NotHeld)   // another owner
	w.exit(u, nil, arbiter.NotHeld) // another handle, anonymously
	w.leave(u, a)                   // another handle, the owner
	w.exit(v, a, arbiter.NotHeld)
	w.exit(v, nil, arbiter.NotHeld)
}

func TestAnonymousExitEndsTheLatestHoldOfTheHandle(t *testing.T) {
	w := newWorld(t)
	v, u := w.handle("a"), w.handle("a")
	o := new(owner)
	w.take(v, o, 0)
	w.call(v, o).must(arbiter.Entered)
	w.exit(v, nil, arbiter.Kept) // as a deferred Unlock(context.Background()) does
	w.exit(u, nil, arbiter.NotHeld)
	w.leave(v, nil)
	w.exit(v, o, arbiter.NotHeld)
}

// A lease that ran out before anybody noticed makes the unlock a loss; nothing is
// released, since the lock may be another's by now.
func TestExitAfterTheLeaseHasRunOutIsALoss(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	o := new(owner)
	h := w.take(v, o, 5)
	w.call(v, o).must(arbiter.Entered)
	next := w.call(v, nil).must(arbiter.Queued)
	h.Lease.until.Store(10)
	w.now.Store(10)
	w.exit(v, o, arbiter.Kept) // the owner still holds it, and hears of the loss at the end
	next.mustWait()
	w.exit(v, o, arbiter.Expired)
	w.mustBe(h, arbiter.Lost)
	next.mustAsk()
	w.exit(v, o, arbiter.NotHeld)
	if w.Lose("a", h.Lease) != nil {
		t.Fatal("the hold was lost twice")
	}
	next.grant(0)
	w.leave(v, nil)
}

func TestLostHoldIsUnlockedAsOftenAsItWasLocked(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	o := new(owner)
	h := w.take(v, o, 0)
	w.call(v, o).must(arbiter.Entered)
	w.Lose("a", h.Lease)
	if w.Reenter(v, o) {
		t.Fatal("a lost hold was entered again")
	}
	w.exit(v, o, arbiter.WasLost)
	if w.Len() != 0 {
		t.Fatal("the table keeps a lost hold; its owner does")
	}
	w.exit(v, o, arbiter.WasLost)
	w.exit(v, o, arbiter.NotHeld)
}

func TestReturnedLockGoesToTheNext(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	w.take(v, nil, 2)
	unwanted := w.call(v, nil).must(arbiter.Queued)
	next := w.call(v, nil).must(arbiter.Queued)
	w.exit(v, nil, arbiter.Passed)
	h := unwanted.mustHold()
	w.giveBack(v, h, arbiter.Passed)
	w.giveBack(v, h, arbiter.NotHeld)
	next.mustHold()
	w.leave(v, nil)
	w.giveBack(v, h, arbiter.NotHeld)
}
