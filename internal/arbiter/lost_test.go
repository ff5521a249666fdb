package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// The tests of this file are about guarantee 4: after a loss, the unlock that is
// still to come must not end somebody else's hold.

// lose loses the current hold of v's lock.
func (w *world) lose(v *handle) *hold {
	w.t.Helper()
	h := w.Lose(v.Name(), w.Lookup(v.Name()).Lease)
	if h == nil {
		w.t.Fatal("Lose found nothing")
	}
	return h
}

func TestAnonymousCallWaitsForTheUnlockOfTheLostHold(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	w.take(v, nil, 0)
	w.lose(v)

	// Through this handle no anonymous call comes in, although the lock is free.
	c := w.call(v, nil).must(arbiter.Queued)
	w.try(v, nil).must(arbiter.UnlockFirst)
	second := w.call(v, nil).must(arbiter.Queued)

	w.exit(v, nil, arbiter.WasLost) // the late unlock
	c.mustAsk()
	second.mustWait()
	w.try(v, nil).must(arbiter.Busy)
	h := c.grant(1)
	w.exit(v, nil, arbiter.Passed) // c's own
	w.mustBe(h, arbiter.Ended)
	second.mustHold()
	w.leave(v, nil)
}

func TestOthersDoNotWaitForTheUnlockOfALostHold(t *testing.T) {
	for name, pick := range map[string]func(v, u *handle) (*handle, *owner){
		"another handle":               func(_, u *handle) (*handle, *owner) { return u, nil },
		"an owner":                     func(v, _ *handle) (*handle, *owner) { return v, new(owner) },
		"an owner with another handle": func(_, u *handle) (*handle, *owner) { return u, new(owner) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			v := w.handle("a")
			w.take(v, nil, 0)
			w.lose(v)
			ineligible := w.call(v, nil).must(arbiter.Queued)

			via, o := pick(v, w.handle("a"))
			w.Quit(w.try(via, o).must(arbiter.Ask).Waiter)
			h := w.take(via, o, 3)

			// The late unlock ends nothing of theirs.
			w.exit(v, nil, arbiter.WasLost)
			w.mustBe(h, arbiter.Live)
			ineligible.mustWait()
			w.exit(via, o, arbiter.Passed)
			ineligible.mustHold()
			w.leave(v, nil)
		})
	}
}

// A lost hold of an owner makes nobody wait: the owner says itself what it unlocks.
func TestLostHoldOfAnOwnerMakesNobodyWait(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	o := new(owner)
	lost := w.take(v, o, 0)
	w.lose(v)
	h := w.take(v, nil, 0)
	if got := w.exit(v, o, arbiter.WasLost); got != lost {
		t.Fatal("the owner's unlock ended another's hold")
	}
	w.mustBe(h, arbiter.Live)
	w.leave(v, nil)
}

// The waiters that may not come in are passed over, at the release and at a pass,
// and keep their place.
func TestIneligibleCallsArePassedOverAndKeepTheirPlace(t *testing.T) {
	w := newWorld(t)
	v, u := w.handle("a"), w.handle("a")
	w.take(v, nil, 0)
	w.lose(v)
	stuck := w.call(v, nil).must(arbiter.Queued)
	first := w.call(u, nil).must(arbiter.Ask)
	second := w.call(u, nil).must(arbiter.Queued)
	third := w.call(u, nil).must(arbiter.Queued)
	first.grant(1)
	w.exit(u, nil, arbiter.Passed)
	second.mustHold()
	stuck.mustWait()
	w.leave(u, nil)
	stuck.mustWait()
	third.mustAsk().grant(1)
	w.exit(v, nil, arbiter.WasLost)
	w.exit(u, nil, arbiter.Passed)
	stuck.mustHold()
	w.leave(v, nil)
}

// Several holds of one handle are lost one after the other, all by owners, then one
// anonymously: every unlock without an owner is counted as that of a lost hold, the
// anonymous one first and then the oldest, and never ends the live one.
func TestOwnerlessUnlocksAreCountedAgainstLostHoldsFirst(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	a, b := new(owner), new(owner)
	first := w.take(v, a, 0)
	w.lose(v)
	second := w.take(v, b, 0)
	w.lose(v)
	third := w.take(v, nil, 0)
	w.lose(v)
	live := w.take(v, new(owner), 0)
	for _, want := range []*hold{third, first, second} {
		if got := w.exit(v, nil, arbiter.WasLost); got != want {
			t.Fatal("a late unlock was counted against another hold")
		}
		w.mustBe(live, arbiter.Live)
	}
	w.leave(v, nil)
}

// The hold is lost while others wait for it: only those that came through another
// handle or with an owner go on.
func TestLossWithWaitersOfAllKinds(t *testing.T) {
	w := newWorld(t)
	v, u := w.handle("a"), w.handle("a")
	o := new(owner)
	w.take(v, nil, 5)
	anon := w.call(v, nil).must(arbiter.Queued)
	owned := w.call(v, o).must(arbiter.Queued)
	other := w.call(u, nil).must(arbiter.Queued)
	w.lose(v)
	anon.mustWait()
	owned.mustAsk().grant(5)
	w.exit(v, o, arbiter.Passed)
	other.mustHold()
	w.leave(u, nil)
	anon.mustWait()
	w.mustWaiting("a", 1)
	w.exit(v, nil, arbiter.WasLost)
	anon.mustAsk().grant(0)
	w.leave(v, nil)
}

func TestQuitOfAnIneligibleCallKeepsTheOutstandingUnlock(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	w.take(v, nil, 0)
	w.lose(v)
	c := w.call(v, nil).must(arbiter.Queued)
	if w.Quit(c.Waiter) != nil {
		t.Fatal("a call that waits for an unlock has a hold")
	}
	w.try(v, nil).must(arbiter.UnlockFirst)
	w.exit(v, nil, arbiter.WasLost)
}

// A handle whose lost hold nobody ever unlocks costs the table nothing, and does not keep
// others from the lock.
func TestUnlockThatNeverComesBlocksOnlyItsHandle(t *testing.T) {
	w := newWorld(t)
	v, u := w.handle("a"), w.handle("a")
	w.take(v, nil, 0)
	w.lose(v)
	for range 100 {
		w.take(u, nil, 0)
		w.leave(u, nil)
		w.try(v, nil).must(arbiter.UnlockFirst)
	}
	if w.Len() != 0 {
		t.Fatalf("%d names are known, want none", w.Len())
	}
	w.exit(v, nil, arbiter.WasLost)
}

// Regression: an anonymous goroutine's unlock after a loss was counted for an owner's
// lost hold, and that owner's unlock then ended the hold of whoever had the lock.
func TestALateUnlockIsRatherAnAnonymousOnesThanAnOwners(t *testing.T) {
	w := newWorld(t)
	v, a, b := w.handle("a"), new(owner), new(owner)
	w.Lose("a", w.take(v, a, 0).Lease)
	x := w.take(v, nil, 0)
	w.Lose("a", x.Lease)
	h := w.take(v, b, 0)
	if got := w.exit(v, nil, arbiter.WasLost); got != x {
		t.Fatalf("it ended %+v", got)
	}
	w.exit(v, a, arbiter.WasLost)
	w.mustBe(h, arbiter.Live)
	w.leave(v, b)
}

// An owner that unlocks once more than it has locked, after its late unlock was counted, ends
// nobody's hold: what it may have owed has been over since all who locked through that handle
// had unlocked.
func TestAnOwnersDebtLapsesWhenNoUnlockIsDue(t *testing.T) {
	w := newWorld(t)
	v, a, b := w.handle("a"), new(owner), new(owner)
	w.take(v, a, 0)
	w.lose(v)
	w.take(v, b, 0)
	w.exit(v, nil, arbiter.WasLost) // that of a
	w.leave(v, b)
	h := w.take(v, nil, 0)
	w.exit(v, a, arbiter.NotHeld)
	w.mustBe(h, arbiter.Live)
	w.leave(v, nil)
}

// Debts that lapse do not pile up with an owner that lives long.
func TestLapsedDebtsDoNotPileUp(t *testing.T) {
	w := newWorld(t)
	v, a := w.handle("a"), new(owner)
	for range 100 {
		w.take(v, a, 0)
		w.lose(v)
		other := new(owner)
		w.take(v, other, 0)
		w.exit(v, nil, arbiter.WasLost)
		w.leave(v, other)
	}
	if n := a.Due(); n > 1 {
		t.Fatalf("%d are kept", n)
	}
}
