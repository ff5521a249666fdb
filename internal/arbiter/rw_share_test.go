package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

const (
	readSide  = arbiter.Read
	writeSide = arbiter.Write
)

func TestRWReadersShareOneLease(t *testing.T) {
	w := newRWWorld(t)
	a, b, c := w.handle(), w.handle(), w.handle()
	first := w.rlock(a, nil).must(arbiter.Ask).standing(nil)
	second, third := w.rlock(b, nil).must(arbiter.Queued), w.rlock(c, nil).must(arbiter.Queued)
	h := first.reads(10)
	for _, q := range []*rwCall{second, third} {
		if got := q.mustHold(); got == h || got.Lease != h.Lease {
			t.Fatalf("hold %+v, first %+v", got, h)
		}
	}
	d := w.handle()
	w.rlock(d, nil).must(arbiter.Joined)
	w.clock.Store(10)
	f := w.handle()
	w.rlock(f, nil).must(arbiter.Ask).standing(h.Lease).joins(h.Lease, 20)
	w.clock.Store(19)
	e := w.handle()
	w.rlock(e, nil).must(arbiter.Joined)
	w.exit(a, nil, readSide, arbiter.Left)
	w.mustBe(h, arbiter.Ended)
	w.exit(b, nil, readSide, arbiter.Left)
	w.exit(c, nil, readSide, arbiter.Left)
	w.exit(d, nil, readSide, arbiter.Left)
	w.exit(d, nil, readSide, arbiter.NotHeld)
	if n := len(w.Lose("a", h.Lease)); n != 2 {
		t.Fatalf("%d holds lost, want 2", n)
	}
	w.exit(e, nil, readSide, arbiter.WasLost)
	w.exit(e, nil, readSide, arbiter.NotHeld)
	w.exit(f, nil, readSide, arbiter.WasLost)
}

// A frozen process may wake up after its lease has ended, and before its watchdog.
func TestRWALeaseThatHasEndedCannotBeJoined(t *testing.T) {
	w := newRWWorld(t)
	a, b := w.handle(), w.handle()
	h := w.rlock(a, nil).must(arbiter.Ask).reads(rwNever)
	h.Lease.until.Store(5)
	w.clock.Store(5)
	if w.Join(b, nil, true) {
		t.Fatal("joined")
	}
	c := w.rlock(b, nil).must(arbiter.Ask).standing(h.Lease)
	if h, _ := w.GrantRead(c.Waiter, h.Lease, false, rwNever); h != nil {
		t.Fatal("joined after a confirmation")
	}
	if got, out, lost := w.Exit(a, nil, readSide); got != h || out != arbiter.Expired || len(lost) != 1 {
		t.Fatalf("Exit = %v, %d, %d", got, out, len(lost))
	}
	w.mustBe(h, arbiter.Lost)
	c.standing(nil).reads(0)
	w.exit(b, nil, readSide, arbiter.Release)
}

// Every reader with a lease of its own asks for it, and shares nothing.
func TestRWFixedLeasesAreNotShared(t *testing.T) {
	w := newRWWorld(t)
	a, b, c := w.handle(), w.handle(), w.handle()
	shared := w.rlock(a, nil).must(arbiter.Ask).reads(rwNever)
	fixed := w.fixedRLock(b, nil).must(arbiter.Ask).standing(nil).reads(rwNever)
	if again := w.fixedRLock(b, nil).must(arbiter.Ask).reads(rwNever); again == fixed || again.Lease == fixed.Lease {
		t.Fatal("shared")
	}
	if !w.Join(c, nil, true) || w.Read(c, nil).Lease != shared.Lease {
		t.Fatal("not on the shared lease")
	}
	if n := len(w.Leases("a")); n != 3 {
		t.Fatalf("%d leases", n)
	}
	w.exit(b, nil, readSide, arbiter.Release)
	w.exit(b, nil, readSide, arbiter.Release)
	w.exit(a, nil, readSide, arbiter.Left)
	w.exit(c, nil, readSide, arbiter.Release)
}

func TestRWLossIsReportedToEveryReaderOfTheLease(t *testing.T) {
	w := newRWWorld(t)
	a, b, owner := w.handle(), w.handle(), new(arbiter.Owner)
	h := w.rlock(a, nil).must(arbiter.Ask).reads(rwNever)
	w.rlock(a, nil).must(arbiter.Joined)
	w.rlock(b, owner).must(arbiter.Joined)
	w.rlock(b, owner).must(arbiter.Entered)
	fixed := w.fixedRLock(w.handle(), nil).must(arbiter.Ask).reads(0)
	if n := len(w.Lose("a", h.Lease)); n != 2 {
		t.Fatalf("%d lost, want that of the anonymous readers, and the owner's", n)
	}
	if n := len(w.Lose("a", h.Lease)); n != 0 {
		t.Fatalf("%d lost again", n)
	}
	w.mustBe(h, arbiter.Lost)
	w.mustBe(w.Read(b, owner), arbiter.Lost)
	w.mustBe(fixed, arbiter.Live)
	// Through a nobody without an owner gets in until both have unlocked.
	w.tryRLock(a, nil).must(arbiter.UnlockFirst)
	late := w.rlock(a, nil).must(arbiter.Queued)
	w.exit(a, nil, readSide, arbiter.WasLost)
	late.mustWait()
	w.exit(a, nil, readSide, arbiter.WasLost)
	late.mustAsk().standing(nil).reads(0)
	w.exit(b, owner, readSide, arbiter.WasLost)
	w.exit(b, owner, readSide, arbiter.WasLost)
	w.exit(b, owner, readSide, arbiter.NotHeld)
	w.exit(a, nil, readSide, arbiter.Release)
	w.Lose("a", fixed.Lease)
	if _, out, _ := w.Exit(w.handle(), nil, readSide); out != arbiter.NotHeld {
		t.Fatal("through another handle")
	}
	if _, out, _ := w.Return(a, fixed); out != arbiter.WasLost {
		t.Fatal("not ended")
	}
}
