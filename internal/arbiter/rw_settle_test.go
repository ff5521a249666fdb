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
