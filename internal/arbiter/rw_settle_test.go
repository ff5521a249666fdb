package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// owed makes unlocks without an owner count for an owner's lost read hold, which it had
// locked as often, beside the anonymous holds that take returns.
func (w *rwWorld) owed(via *rwHandle, n int, take func() []*rwHold) (*arbiter.Owner, []*rwHold) {
	w.t.Helper()
	owner := new(arbiter.Owner)
	lost := w.readsUntil(via, owner, 5)
	for range n - 1 {
		w.rlock(via, owner).must(arbiter.Entered)
	}
	w.Lose("a", lost.Lease)
	holds := take()
	for range n {
		if h := w.exit(via, nil, readSide, arbiter.WasLost); h != lost {
			w.t.Fatal("not counted for the lost one")
		}
	}
	return owner, holds
}

// Regression: the lease that lasts longest was released, and the reader that had taken it
// was left with one that ends before.
func TestRWAnUnlockThatSettlesADebtEndsTheLeaseThatIsOverFirst(t *testing.T) {
	w := newRWWorld(t)
	v := w.handle()
	owner, holds := w.owed(v, 1, func() []*rwHold {
		return []*rwHold{w.readsUntil(v, nil, 10), w.readsUntil(v, nil, 20)}
	})
	if h := w.exit(v, owner, readSide, arbiter.Release); h != holds[0] {
		t.Fatalf("ended %+v", h)
	}
	w.mustBe(holds[0], arbiter.Live)
	if h := w.exit(v, nil, readSide, arbiter.Release); h != holds[1] {
		t.Fatalf("ended %+v", h)
	}
	w.mustBe(holds[0], arbiter.Ended)
	w.mustBe(holds[1], arbiter.Ended)
}

// Regression: the hold that the unlock ended was taken to be one of the other handle. If
// that had no anonymous hold, the reader was told of an end while it might be in; else its
// hold outlived the last lease of its handle.
func TestRWADebtMayBeSettledThroughAnotherHandle(t *testing.T) {
	for _, busy := range []bool{false, true} {
		w := newRWWorld(t)
		v, other := w.handle(), w.handle()
		owner, holds := w.owed(v, 1, func() []*rwHold {
			return []*rwHold{w.readsUntil(v, nil, 10), w.readsUntil(v, nil, 20)}
		})
		var beside *rwHold
		if busy {
			beside = w.readsUntil(other, nil, 30)
		}
		w.exit(other, owner, readSide, arbiter.Release)
		w.mustBe(holds[0], arbiter.Live)
		w.mustBe(holds[1], arbiter.Live)
		w.exit(v, nil, readSide, arbiter.Release)
		w.mustBe(holds[0], arbiter.Ended)
		w.mustBe(holds[1], arbiter.Ended)
		if busy {
			w.mustBe(beside, arbiter.Live)
			w.exit(other, nil, readSide, arbiter.Release)
		}
	}
}

// Regression: one hold had two debts if the other one had been taken after it. The owner was
// told that it held nothing, and the other one stayed for ever.
func TestRWEachHoldHasOneDebtInWhateverOrderTheyWereTaken(t *testing.T) {
	for _, ends := range [][]int64{{10, 20}, {20, 10}} {
		w := newRWWorld(t)
		v := w.handle()
		owner, holds := w.owed(v, 2, func() []*rwHold {
			return []*rwHold{w.readsUntil(v, nil, ends[0]), w.readsUntil(v, nil, ends[1])}
		})
		for range 2 {
			w.exit(v, owner, readSide, arbiter.Release)
		}
		w.exit(v, owner, readSide, arbiter.NotHeld)
		for _, h := range holds {
			w.mustBe(h, arbiter.Ended)
		}
	}
}

// Regression: the debt was one of the live hold, and its lease was released. But the unlock
// may have been that of the reader whose lease has been lost since.
func TestRWADebtIsSettledByALostHoldFirst(t *testing.T) {
	w := newRWWorld(t)
	v := w.handle()
	owner, holds := w.owed(v, 1, func() []*rwHold {
		return []*rwHold{w.readsUntil(v, nil, 20), w.readsUntil(v, nil, 10)}
	})
	w.Lose("a", holds[1].Lease)
	if h := w.exit(v, owner, readSide, arbiter.WasLost); h != holds[1] {
		t.Fatalf("ended %+v", h)
	}
	w.mustBe(holds[0], arbiter.Live)
	if h := w.exit(v, nil, readSide, arbiter.Release); h != holds[0] {
		t.Fatalf("ended %+v", h)
	}
}

// Regression: it gave back the lease that lasts longest, in place of its own.
func TestRWACancelledCallWhoseLeaseIsGoneGivesBackTheOneThatIsOverFirst(t *testing.T) {
	w := newRWWorld(t)
	v := w.handle()
	a, b, own := w.readsUntil(v, nil, 20), w.readsUntil(v, nil, 30), w.readsUntil(v, nil, 10)
	if h := w.exit(v, nil, readSide, arbiter.Release); h != own {
		t.Fatalf("ended %+v", h)
	}
	if h, out, _ := w.Return(v, own); h != a || out != arbiter.Release {
		t.Fatalf("Return = %+v, %d", h, out)
	}
	w.mustBe(a, arbiter.Live)
	w.exit(v, nil, readSide, arbiter.Release)
	w.mustBe(b, arbiter.Ended)
}

// The same of a book.
func TestBookSettlesADebtWithTheAnonymousHoldThatIsOverFirst(t *testing.T) {
	book, o := newBook(), new(owner)
	lost := &arbiter.Hold[int]{Owner: o}
	a, b := &arbiter.Hold[int]{Lease: 1}, &arbiter.Hold[int]{Lease: 2}
	for _, h := range []*arbiter.Hold[int]{lost, a, b} {
		book.Add(h)
	}
	lost.End(arbiter.Lost)
	if h, _, _ := book.Exit(nil); h != lost {
		t.Fatalf("Exit = %+v", h)
	}
	if h, over, parted := book.Exit(o); h != a || !over || !parted || a.State() != arbiter.Live {
		t.Fatalf("Exit = %+v, %t, %t", h, over, parted)
	}
	if h, over, parted := book.Exit(nil); h != b || !over || parted {
		t.Fatalf("Exit = %+v, %t, %t", h, over, parted)
	}
	b.End(arbiter.Ended)
	if a.State() != arbiter.Ended {
		t.Fatal("live after the last one")
	}
}

// Regression: the debt of an anonymous hold that was lost was charged to the newest hold, an
// owner's, though another anonymous one awaited its unlock: one owner's unlock released
// another's hold.
func TestRWTheDebtOfALostAnonymousHoldIsNotChargedToAnOwner(t *testing.T) {
	w := newRWWorld(t)
	v := w.handle()
	owner, holds := w.owed(v, 1, func() []*rwHold { return []*rwHold{w.readsUntil(v, nil, 10)} })
	holds = append(holds, w.readsUntil(v, nil, 20))
	newer := new(arbiter.Owner)
	h := w.readsUntil(v, newer, 30)
	for _, h := range holds {
		w.Lose("a", h.Lease)
	}
	w.exit(v, nil, readSide, arbiter.WasLost)
	w.exit(v, owner, readSide, arbiter.WasLost)
	w.mustBe(h, arbiter.Live)
	w.exit(v, owner, readSide, arbiter.NotHeld)
	w.exit(v, newer, readSide, arbiter.Release)
	w.exit(v, nil, readSide, arbiter.NotHeld)
}
