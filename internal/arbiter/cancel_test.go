package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// A cancelled call meets its grant in one of these ways. In each the lock must end
// with somebody who wants it, or with nobody.

func TestQuitOfAGrantedCallReturnsTheHold(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	w.take(v, nil, 1)
	quitter := w.call(v, nil).must(arbiter.Queued)
	next := w.call(v, nil).must(arbiter.Queued)
	w.exit(v, nil, arbiter.Passed)
	h := w.Quit(quitter.Waiter)
	if h == nil || h != w.Lookup("a") {
		t.Fatal("Quit did not return the hold that was granted meanwhile")
	}
	w.giveBack(v, h, arbiter.Release)
	w.mustBe(h, arbiter.Ended)
	next.mustWait()
	w.Released("a", h.Lease)
	w.Quit(next.mustAsk().Waiter)
}

// The call was granted, its hold was lost, and only then it was cancelled.
func TestQuitOfAGrantedCallWhoseHoldWasLost(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	h := w.take(v, nil, 1)
	quitter := w.call(v, nil).must(arbiter.Queued)
	next := w.call(v, nil).must(arbiter.Queued)
	w.exit(v, nil, arbiter.Passed)
	w.Lose("a", h.Lease)
	next.mustWait() // through the same handle, so it waits for the unlock
	lost := w.Quit(quitter.Waiter)
	if lost == nil {
		t.Fatal("Quit did not return the hold, whose unlock is outstanding")
	}
	w.mustBe(lost, arbiter.Lost)
	w.giveBack(v, lost, arbiter.WasLost)
	w.Quit(next.mustAsk().Waiter)
}

// The unlock of an owner's lost hold was made by an anonymous goroutine, whose own hold awaits
// one in its place. Two goroutines of the owner go on: one is granted the lock, the other makes
// its late unlock, which ends that new hold. If the first then cancels its call, what it gives
// back is the unlock that is still due, and Return tells of which hold.
func TestReturnOfAHoldThatAnotherGoroutineOfTheOwnerHasEnded(t *testing.T) {
	w := newWorld(t)
	v, u := w.handle("a"), w.handle("a")
	o := new(owner)
	w.take(v, o, 0)
	w.lose(v)
	h := w.take(v, nil, 0)
	w.exit(v, nil, arbiter.WasLost) // counted for the hold of o
	quitter := w.call(u, o).must(arbiter.Queued)
	w.lose(v)
	quitter.mustAsk().grant(0)
	w.leave(v, o)
	if w.giveBack(u, u.Latest(), arbiter.WasLost) != h {
		t.Fatal("Return did not tell which hold it has ended")
	}
	w.exit(v, o, arbiter.NotHeld)
	w.exit(v, nil, arbiter.NotHeld)
}
