package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// A downgrade of a write hold that was lost is none, nor does a writer that has lost its read
// hold get the lock, which it could not have been upgraded to.
func TestRWAnOwnerGetsNeitherSideBeforeItHasUnlockedTheLostOne(t *testing.T) {
	for _, held := range []arbiter.Side{readSide, writeSide} {
		w := newRWWorld(t)
		v, o := w.handle(), new(arbiter.Owner)
		var h *rwHold
		if held == readSide {
			h = w.rlock(v, o).must(arbiter.Ask).reads(0)
		} else {
			h = w.lock(v, o).must(arbiter.Ask).writes(0)
		}
		w.Lose("a", h.Lease)
		other := w.rlock(v, new(arbiter.Owner)).must(arbiter.Ask)
		other.reads(rwNever)
		for _, side := range []arbiter.Side{readSide, writeSide} {
			w.enter(v, o, side, true, true).must(arbiter.UnlockFirst)
			w.enter(v, o, side, true, false).must(arbiter.UnlockFirst)
		}
		if w.Join(v, o, true) {
			t.Fatal("joined")
		}
		w.exit(v, o, held, arbiter.WasLost)
		w.rlock(v, o).must(arbiter.Joined)
		w.exit(v, o, readSide, arbiter.Left)
		w.exit(v, other.Owner, readSide, arbiter.Release)
	}
}

// A reader that asks beside its owner's write hold gets nothing once that is lost.
func TestRWALossRefusesTheOwnersReaderThatAsks(t *testing.T) {
	w := newRWWorld(t)
	v, o := w.handle(), new(arbiter.Owner)
	h := w.lock(v, o).must(arbiter.Ask).writes(0)
	c := w.rlock(v, o).must(arbiter.Ask)
	w.Lose("a", h.Lease)
	if got, used := w.GrantRead(c.Waiter, newRWLease(0), true, 0); got != nil || used {
		t.Fatalf("GrantRead = %v, %t", got, used)
	}
	if got, st := w.Standing(c.Waiter); got != nil || !st.Refused {
		t.Fatalf("Standing = %v, %+v", got, st)
	}
	w.Quit(c.Waiter)
	w.exit(v, o, writeSide, arbiter.WasLost)
}

// The same of a book.
func TestBookAdmitsNoOwnerWhoseLostHoldAwaitsItsUnlock(t *testing.T) {
	book, o := newBook(), new(owner)
	h := &arbiter.Hold[int]{Owner: o}
	book.Add(h)
	if !book.Again(o) {
		t.Fatal("not entered again")
	}
	h.End(arbiter.Lost)
	for range 2 {
		if ok, _ := book.Admits(o); ok || book.Again(o) {
			t.Fatal("admitted")
		}
		book.Exit(o)
	}
	if ok, _ := book.Admits(o); !ok {
		t.Fatal("not admitted after its last unlock")
	}
}
