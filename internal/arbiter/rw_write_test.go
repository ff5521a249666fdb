package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

func TestRWAnOwnerThatReadsCannotWrite(t *testing.T) {
	w := newRWWorld(t)
	v, owner := w.handle(), new(arbiter.Owner)
	w.rlock(v, owner).must(arbiter.Ask).reads(0)
	w.lock(w.handle(), owner).must(arbiter.Upgrade)
	w.tryLock(w.handle(), owner).must(arbiter.Upgrade)
	w.tryLock(w.handle(), new(arbiter.Owner)).must(arbiter.Busy)
	w.tryLock(w.handle(), nil).must(arbiter.Busy)
	w.exit(v, owner, readSide, arbiter.Release)
	// Who writes may read, and write again.
	h := w.lock(v, owner).must(arbiter.Ask).writes(0)
	r := w.handle()
	w.rlock(r, owner).must(arbiter.Ask).reads(0)
	w.lock(v, owner).must(arbiter.Entered)
	w.exit(v, owner, writeSide, arbiter.Kept)
	w.exit(v, owner, writeSide, arbiter.Release)
	w.Released("a", h.Lease)
	w.lock(v, owner).must(arbiter.Upgrade)
	w.exit(r, owner, readSide, arbiter.Release)
}

func TestRWAWaitingWriterStopsNewReaders(t *testing.T) {
	w := newRWWorld(t)
	a, b, owner := w.handle(), w.handle(), new(arbiter.Owner)
	h := w.rlock(a, owner).must(arbiter.Ask).reads(rwNever)
	waits := w.lock(w.handle(), nil).must(arbiter.Ask)
	if w.Join(b, nil, true) {
		t.Fatal("joined past a writer")
	}
	w.rlock(a, owner).must(arbiter.Entered) // again, so it is never stopped
	w.exit(a, owner, readSide, arbiter.Kept)
	w.rlock(b, nil).must(arbiter.Ask).standing(h.Lease).joins(h.Lease, rwNever) // Redis decides
	if w.Join(b, nil, true) {
		t.Fatal("joined past a writer")
	}
	w.Quit(waits.Waiter)
	w.rlock(b, nil).must(arbiter.Joined)
	for range 2 {
		w.exit(b, nil, readSide, arbiter.Left)
	}
	w.exit(a, owner, readSide, arbiter.Release)
}

// Goroutines of one owner need not wait for each other, nor behind other readers.
func TestRWAnOwnersWaitersEnterWithIt(t *testing.T) {
	w := newRWWorld(t)
	a, b, owner := w.handle(), w.handle(), new(arbiter.Owner)
	other := w.lock(a, nil).must(arbiter.Ask).writes(0)
	asks := w.rlock(w.handle(), nil).must(arbiter.Ask)
	first, second := w.lock(b, owner).must(arbiter.Queued), w.lock(b, owner).must(arbiter.Queued)
	r := w.handle()
	reads, reads2 := w.rlock(r, owner).must(arbiter.Queued), w.rlock(r, owner).must(arbiter.Queued)
	w.exit(a, nil, writeSide, arbiter.Release)
	w.Released("a", other.Lease)
	h := first.mustAsk().writes(0)
	if second.mustHold() != h {
		t.Fatal("the owner's second call has another hold")
	}
	got := reads.mustAsk().reads(0)
	if h, _ := w.Standing(reads2.mustAsk().Waiter); h != got {
		t.Fatal("the owner's second reader has another hold")
	}
	asks.mustWait().standing(nil)
	w.exit(b, owner, writeSide, arbiter.Kept)
	w.exit(b, owner, writeSide, arbiter.Release)
	w.Released("a", h.Lease)
	asks.standing(got.Lease).joins(got.Lease, 0)
	w.exit(r, owner, readSide, arbiter.Kept)
	w.exit(r, owner, readSide, arbiter.Left)
	w.exit(asks.Via, nil, readSide, arbiter.Release)
}

// A call that was let in and gives up gives back its own lock, and nobody else's.
func TestRWReturn(t *testing.T) {
	w := newRWWorld(t)
	a := w.handle()
	first := w.rlock(a, nil).must(arbiter.Ask)
	queued := w.rlock(a, nil).must(arbiter.Queued)
	h := first.reads(0)
	if w.Quit(queued.Waiter) != h {
		t.Fatal("it was let in")
	}
	if _, out, _ := w.Return(a, h); out != arbiter.Left {
		t.Fatalf("Return = %d", out)
	}
	w.mustBe(h, arbiter.Live)
	if _, out, _ := w.Return(a, h); out != arbiter.Release {
		t.Fatalf("Return = %d", out)
	}
	if _, out, _ := w.Return(a, h); out != arbiter.NotHeld {
		t.Fatalf("Return = %d", out)
	}
}

func TestRWWritersPassTheLockOn(t *testing.T) {
	w := newRWWorld(t)
	a, b, c := w.handle(), w.handle(), w.handle()
	h := w.lock(a, nil).must(arbiter.Ask).writes(10)
	second, third := w.lock(b, nil).must(arbiter.Queued), w.lock(c, nil).must(arbiter.Queued)
	w.exit(a, nil, writeSide, arbiter.Passed)
	next := second.mustHold()
	if next.Lease != h.Lease || next.Token != 1 || !next.Passed {
		t.Fatalf("passed on as %+v", next)
	}
	// Readers go first.
	r := w.handle()
	reader := w.rlock(r, nil).must(arbiter.Ask)
	released := w.exit(b, nil, writeSide, arbiter.Release)
	third.mustWait()
	w.Released("a", released.Lease)
	third.mustAsk()
	reader.reads(0)
	w.exit(r, nil, readSide, arbiter.Release)

	// An owner that reads on does not pass it on.
	owner := new(arbiter.Owner)
	third.writes(10)
	forth := w.lock(a, owner).must(arbiter.Queued)
	w.exit(c, nil, writeSide, arbiter.Passed)
	forth.mustHold()
	w.rlock(r, owner).must(arbiter.Ask).reads(0)
	fifth := w.lock(b, nil).must(arbiter.Queued)
	released = w.exit(a, owner, writeSide, arbiter.Release)
	w.Released("a", released.Lease)
	fifth.mustAsk()
	w.exit(r, owner, readSide, arbiter.Release)
	w.Quit(fifth.Waiter)
}
