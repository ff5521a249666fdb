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
