package arbiter_test

import (
	"slices"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// A cancelled call meets its grant in one of these ways. In each the lock must end
// with somebody who wants it, or with nobody.

func TestQuitOfAQueuedCallKeepsTheOrderOfTheOthers(t *testing.T) {
	for quitter := range 4 {
		w := newWorld(t)
		v := w.handle("a")
		w.take(v, nil, 10)
		var queue []*call
		for range 4 {
			queue = append(queue, w.call(v, nil).must(arbiter.Queued))
		}
		if w.Quit(queue[quitter].Waiter) != nil {
			t.Fatal("a queued call has a hold")
		}
		w.mustWaiting("a", 3)
		queue = slices.Delete(queue, quitter, quitter+1)
		for _, c := range queue {
			w.exit(v, nil, arbiter.Passed)
			c.mustHold()
		}
		w.leave(v, nil)
	}
}

func TestQuitOfAContenderMakesTheNextContend(t *testing.T) {
	for _, looked := range []bool{false, true} {
		w := newWorld(t)
		v := w.handle("a")
		w.take(v, nil, 0)
		quitter := w.call(v, nil).must(arbiter.Queued)
		next := w.call(v, nil).must(arbiter.Queued)
		w.leave(v, nil)
		if looked {
			quitter.mustAsk()
		}
		next.mustWait()
		if w.Quit(quitter.Waiter) != nil {
			t.Fatal("the asker has a hold")
		}
		next.mustAsk()
		w.Quit(next.Waiter)
	}
}

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

func TestReturnAfterTheLeaseHasRunOutReleasesNothing(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	h := w.take(v, nil, 1)
	quitter := w.call(v, nil).must(arbiter.Queued)
	next := w.call(v, nil).must(arbiter.Queued)
	w.exit(v, nil, arbiter.Passed)
	h.Lease.until.Store(0)
	w.giveBack(v, w.Quit(quitter.Waiter), arbiter.Expired)
	w.Quit(next.mustAsk().Waiter)
}

// One of several calls of an owner that were let in together is cancelled: it gives
// back its own lock of the hold and not the others'.
func TestQuitOfOneOfSeveralCallsOfAnOwner(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	o := new(owner)
	w.take(v, nil, 1)
	first := w.call(v, o).must(arbiter.Queued)
	second := w.call(v, o).must(arbiter.Queued)
	third := w.call(v, o).must(arbiter.Queued)
	if w.Quit(second.Waiter) != nil {
		t.Fatal("a queued call has a hold")
	}
	w.exit(v, nil, arbiter.Passed)
	h := first.mustHold()
	if w.Quit(third.Waiter) != h {
		t.Fatal("the third call was not let in with the first")
	}
	second.mustWait()
	w.giveBack(v, h, arbiter.Kept)
	w.mustBe(h, arbiter.Live)
	w.leave(v, o)
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

// An owner whose queued calls have all quit is not let in by the next grant.
func TestOwnerWithoutQueuedCallsDoesNotEnter(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	o := new(owner)
	asker := w.call(v, o).must(arbiter.Ask)
	c := w.call(v, o).must(arbiter.Queued)
	w.Quit(c.Waiter)
	h := asker.grant(0)
	c.mustWait()
	w.leave(v, o)
	w.mustBe(h, arbiter.Ended)
}

func TestQuitOfTheLastForgetsTheName(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	asker := w.call(v, nil)
	c := w.call(v, nil)
	w.Quit(asker.Waiter)
	w.Quit(c.Waiter)
	if w.Len() != 0 {
		t.Fatal("the name is remembered")
	}
}
