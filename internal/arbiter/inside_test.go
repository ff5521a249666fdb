package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// Newest finds the hold that Do has taken, whatever has become of it since.
func TestNewestIsTheHoldThatAwaitsItsUnlock(t *testing.T) {
	w := newWorld(t)
	v, o := w.handle("a"), new(owner)
	want := func(h *hold) {
		t.Helper()
		if got := w.Newest(v, o); got != h {
			t.Fatalf("Newest = %v, want %v", got, h)
		}
		if got := w.Newest(v, nil); got != nil {
			t.Fatalf("Newest of nobody = %v", got)
		}
	}
	want(nil)
	h := w.take(v, o, 0)
	want(h)
	w.lose(v)
	want(h)
	other := w.take(v, new(owner), 0)
	want(h)
	w.exit(v, o, arbiter.WasLost)
	want(nil)
	w.leave(v, other.Owner)
}

func TestNewestOfEachSide(t *testing.T) {
	w := newRWWorld(t)
	v, r, o := w.handle(), w.handle(), new(arbiter.Owner)
	h := w.lock(v, o).must(arbiter.Ask).writes(0)
	read := w.rlock(r, o).must(arbiter.Ask).reads(0)
	if w.Newest(v, o, writeSide) != h || w.Newest(r, o, readSide) != read || w.Newest(r, nil, readSide) != nil {
		t.Fatal("Newest of a live hold")
	}
	w.Lose("a", h.Lease)
	w.Lose("a", read.Lease)
	if w.Newest(v, o, writeSide) != h || w.Newest(r, o, readSide) != read {
		t.Fatal("Newest of a lost hold")
	}
	w.exit(v, o, writeSide, arbiter.WasLost)
	w.exit(r, o, readSide, arbiter.WasLost)
	if w.Newest(v, o, writeSide) != nil || w.Newest(r, o, readSide) != nil {
		t.Fatal("Newest after the unlock")
	}
}

func TestNewestOfABook(t *testing.T) {
	book, o := newBook(), new(owner)
	first := &arbiter.Hold[int]{Owner: o}
	book.Add(first)
	if book.Newest(o) != first || book.Newest(new(owner)) != nil || book.Newest(nil) != nil {
		t.Fatal("Newest of a live hold")
	}
	first.End(arbiter.Lost)
	if book.Newest(o) != first {
		t.Fatal("Newest of a lost hold")
	}
	book.Exit(o)
	if book.Newest(o) != nil {
		t.Fatal("Newest after the unlock")
	}
}

// A writer waits for a reader who calls another reader: that one enters without asking.
func TestReaderInsideAReaderGoesBeforeAWriter(t *testing.T) {
	w := newRWWorld(t)
	a, b, c := w.handle(), w.handle(), w.handle()
	inside := func(via *rwHandle, o *arbiter.Owner, passable bool) *rwCall {
		call := &rwCall{Waiter: w.Waiter(via, o, passable), w: w}
		call.Inside = true
		call.verdict = w.Enter(call.Waiter, readSide, true)
		return call
	}
	h := w.rlock(a, new(arbiter.Owner)).must(arbiter.Ask).reads(10)
	writer := w.lock(b, nil).must(arbiter.Ask)
	outside := w.rlock(c, nil).must(arbiter.Ask).standing(h.Lease)
	inside(c, nil, true).must(arbiter.Joined)
	if w.Newest(a, h.Owner, readSide).Lease != h.Lease {
		t.Fatal("another lease")
	}
	own := inside(c, nil, false).must(arbiter.Ask) // it must have a lease of its own
	if w.Quit(own.Waiter) != nil || w.Quit(outside.Waiter) != nil {
		t.Fatal("a call that gave up has a hold")
	}
	w.exit(a, h.Owner, readSide, arbiter.Left)
	w.exit(c, nil, readSide, arbiter.Release)
	written := writer.writes(0)

	// There is no lease to join now, least of all beside the writer.
	late := inside(c, nil, true).must(arbiter.Ask)
	w.exit(b, nil, writeSide, arbiter.Release)
	w.Released("a", written.Lease)
	late.reads(0)
	w.exit(c, nil, readSide, arbiter.Release)
}
