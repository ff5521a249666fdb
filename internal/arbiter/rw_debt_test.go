package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// Regression: two unlocks of anonymous readers had been counted for an owner's lost
// hold, and a single one of their holds owed both to the owner. When the other one was
// lost, too, and ended by the unlock of a reader who had come later, nobody owed the
// second any more: the owner was told that it held nothing, and that reader's hold
// stayed for ever.
func TestRWEveryDebtIsOwedByAHoldThatIsLeft(t *testing.T) {
	w := newRWWorld(t)
	a, owner := w.handle(), new(arbiter.Owner)
	lost := w.fixedRLock(a, owner).must(arbiter.Ask).reads(0)
	w.rlock(a, owner).must(arbiter.Entered)
	w.Lose("a", lost.Lease)

	first := w.fixedRLock(a, nil).must(arbiter.Ask).reads(0)
	second := w.fixedRLock(a, nil).must(arbiter.Ask).reads(0)
	asks := w.fixedRLock(a, nil).must(arbiter.Ask)
	for range 2 {
		if h := w.exit(a, nil, readSide, arbiter.WasLost); h != lost {
			t.Fatal("not counted for the lost one")
		}
	}
	w.Lose("a", first.Lease)
	w.Lose("a", second.Lease)
	third := asks.reads(0)
	w.exit(a, nil, readSide, arbiter.WasLost)
	ended := map[arbiter.Outcome]bool{}
	for range 2 {
		h, out, _ := w.Exit(a, owner, readSide)
		if h == nil {
			t.Fatal("the owner is told that it holds nothing")
		}
		ended[out] = true
	}
	if !ended[arbiter.WasLost] || !ended[arbiter.Release] {
		t.Fatalf("outcomes %v", ended)
	}
	w.mustBe(third, arbiter.Ended)
	w.exit(a, owner, readSide, arbiter.NotHeld)
	w.exit(a, nil, readSide, arbiter.NotHeld)
}
