package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// In an open table, that of FairMutexes, every call asks Redis by itself.
func newOpenWorld(t testing.TB) *world {
	w := newWorld(t)
	w.Open = true
	return w
}

func TestOpenTableLetsEveryCallContend(t *testing.T) {
	w := newOpenWorld(t)
	v := w.handle("a")
	first := w.fixed(v, nil).must(arbiter.Ask)
	second := w.fixed(v, nil).must(arbiter.Ask)
	third := w.try(v, nil).must(arbiter.Ask)
	w.Quit(third.Waiter)

	second.grant(5) // as Redis decides
	w.try(v, nil).must(arbiter.Busy)
	fourth := w.fixed(v, nil).must(arbiter.Ask)
	first.mustWait()
	h := w.exit(v, nil, arbiter.Release) // never passed on here: the queue is in Redis
	w.try(v, nil).must(arbiter.Ask).quit()

	// Redis has given it to the next before this process has heard of the end of its
	// release.
	first.grant(0)
	w.Released("a", h.Lease)
	w.mustBe(v.Latest(), arbiter.Live)
	w.leave(v, nil)
	fourth.grant(0)
	w.leave(v, nil)
}

func TestOpenTableMakesAnonymousCallsWaitForALateUnlock(t *testing.T) {
	w := newOpenWorld(t)
	v, u := w.handle("a"), w.handle("a")
	w.take(v, nil, 0)
	w.lose(v)
	c := w.call(v, nil).must(arbiter.Queued)
	d := w.call(v, nil).must(arbiter.Queued)
	w.try(v, nil).must(arbiter.UnlockFirst)
	w.call(u, nil).must(arbiter.Ask).quit()
	w.call(v, new(owner)).must(arbiter.Ask).quit()
	w.exit(v, nil, arbiter.WasLost)
	c.mustAsk().quit()
	d.mustAsk().quit()
}

// When Redis gives the lock to one goroutine while another still believes it has it,
// because its key was deleted, the belief ends at once. The hold was once forgotten
// instead: its Done never closed, and its Unlock found nothing.
func TestGrantInAnOpenTableEndsTheHoldBefore(t *testing.T) {
	w := newOpenWorld(t)
	v, u := w.handle("a"), w.handle("a")
	o := new(owner)
	first := w.call(v, o).must(arbiter.Ask)
	second := w.call(u, nil).must(arbiter.Ask)
	h := first.grant(0)
	done := h.Done()
	g := second.grant(0)
	w.mustBe(h, arbiter.Lost)
	w.mustBe(g, arbiter.Live)
	select {
	case <-done:
	default:
		t.Fatal("the hold was lost and Done is open")
	}
	if w.Lose("a", h.Lease) != nil {
		t.Fatal("the hold was lost twice")
	}
	w.exit(v, o, arbiter.WasLost)
	w.mustBe(g, arbiter.Live)
	w.leave(u, nil)
}

func TestOpenTableLetsInTheCallsOfOneOwnerTogether(t *testing.T) {
	w := newOpenWorld(t)
	v := w.handle("a")
	o := new(owner)
	first := w.call(v, o).must(arbiter.Ask)
	second := w.call(v, o).must(arbiter.Ask)
	third := w.call(v, o).must(arbiter.Ask)
	stranger := w.call(v, nil).must(arbiter.Ask)

	h := second.grant(0)
	if first.mustHold() != h {
		t.Fatal("calls of one owner have different holds")
	}
	// The first has got a lease of its own in the same moment: it is not wanted.
	if got, wanted := w.Grant(first.Waiter, new(lease), 1); got != h || wanted {
		t.Fatal("a second lease for one owner was taken")
	}
	if w.Quit(third.Waiter) != h {
		t.Fatal("a call that was let in did not learn of it when it gave up")
	}
	stranger.mustWait()
	w.call(v, o).must(arbiter.Entered)
	for range 3 {
		w.exit(v, o, arbiter.Kept)
	}
	w.leave(v, o)
	stranger.quit()
}

// Two goroutines were granted the lock, one after the end of the other's lease. The one
// that comes first to the table may be the later one: the other has nothing then.
func TestGrantInAnOpenTableThatCameTooLateIsNone(t *testing.T) {
	w := newOpenWorld(t)
	v, u := w.handle("a"), w.handle("a")
	slow := w.fixed(v, nil).must(arbiter.Ask)
	quick := w.call(u, nil).must(arbiter.Ask)
	g := quick.grant(7)
	if h, wanted := w.Grant(slow.Waiter, new(lease), 6); h != nil || wanted {
		t.Fatal("a lease that had ended was taken")
	}
	w.mustBe(g, arbiter.Live)
	slow.mustWait()
	w.exit(u, nil, arbiter.Release) // not finished yet
	if h, wanted := w.Grant(slow.Waiter, new(lease), 6); h != nil || wanted {
		t.Fatal("a lease that had ended was taken")
	}
	slow.grant(8)
	w.Released("a", g.Lease)
	w.leave(v, nil)
}
