package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// Another reader just asks: its answer counts for both. It was false at once.
func TestRWTryRLockWaitsForTheAnswerThatIsUnderWay(t *testing.T) {
	w := newRWWorld(t)
	a, b := w.handle(), w.handle()
	asks := w.rlock(a, nil).must(arbiter.Ask)
	try, waits := w.tryRLock(b, nil).must(arbiter.Queued), w.rlock(b, nil).must(arbiter.Queued)
	h := asks.reads(0)
	if got := try.mustHold(); got.Lease != h.Lease || waits.mustHold() != got {
		t.Fatal("not let in")
	}
	for range 2 {
		w.exit(b, nil, readSide, arbiter.Left)
	}
	w.exit(a, nil, readSide, arbiter.Release)
}

func TestRWTryRLockIsRefusedWithTheContendingReader(t *testing.T) {
	w := newRWWorld(t)
	a, b := w.handle(), w.handle()
	asks := w.rlock(a, nil).must(arbiter.Ask)
	try, waits := w.tryRLock(b, nil).must(arbiter.Queued), w.rlock(b, nil).must(arbiter.Queued)
	w.Refused(asks.Waiter, false)
	try.mustBeRefused()
	waits.mustWait()
	w.tryRLock(b, nil).must(arbiter.Busy) // the answer is known now
	w.Quit(asks.Waiter)
	waits.mustAsk()
	w.Quit(w.tryRLock(b, nil).must(arbiter.Queued).Waiter)
	w.Quit(waits.Waiter)
}

// It has to return the error, not to wait until there is none.
func TestRWTryRLockContendsForItselfWhenRedisDoesNotAnswer(t *testing.T) {
	w := newRWWorld(t)
	a, b := w.handle(), w.handle()
	asks := w.rlock(a, nil).must(arbiter.Ask)
	try, waits := w.tryRLock(b, nil).must(arbiter.Queued), w.rlock(b, nil).must(arbiter.Queued)
	w.Refused(asks.Waiter, true)
	w.Quit(try.mustAsk().Waiter)
	waits.mustWait()
	w.Quit(w.tryRLock(b, nil).must(arbiter.Ask).Waiter)
	w.Refused(asks.Waiter, false)
	w.tryRLock(b, nil).must(arbiter.Busy)
	w.Refused(asks.Waiter, true)
	other := w.tryRLock(b, nil).must(arbiter.Ask)
	h := asks.reads(0)
	waits.mustHold()
	if got, used := w.GrantRead(other.Waiter, newRWLease(0), true, 0); got == nil || got.Lease != h.Lease || used {
		t.Fatalf("GrantRead = %v, %t; the process has a lease", got, used)
	}
	w.exit(b, nil, readSide, arbiter.Left)
	w.exit(b, nil, readSide, arbiter.Left)
	w.exit(a, nil, readSide, arbiter.Release)
}

// Two owners lock and unlock again and again through one value, and never at the same
// time nothing: what the value remembers must not grow.
func TestRWAHandleForgets(t *testing.T) {
	w := newRWWorld(t)
	v, a, b := w.handle(), new(arbiter.Owner), new(arbiter.Owner)
	w.rlock(v, a).must(arbiter.Ask).reads(rwNever)
	w.rlock(v, b).must(arbiter.Joined)
	grow := func() {
		for range 1000 {
			for _, o := range []*arbiter.Owner{a, b} {
				w.rlock(v, o).must(arbiter.Entered)
				w.exit(v, o, readSide, arbiter.Kept)
			}
		}
	}
	grow()
	if n := v.Open(); n > 10 {
		t.Fatalf("the handle remembers %d holds", n)
	}
	w.exit(v, b, readSide, arbiter.Left)
	w.exit(v, a, readSide, arbiter.Release)
}
