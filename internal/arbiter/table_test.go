package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

func TestOneCallContendsAndTheOthersQueue(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")

	first := w.call(v, nil).must(arbiter.Ask)
	second := w.call(v, nil).must(arbiter.Queued)
	third := w.call(w.handle("a"), new(owner)).must(arbiter.Queued)
	w.try(v, nil).must(arbiter.Busy)
	w.try(v, new(owner)).must(arbiter.Busy)
	w.mustWaiting("a", 2)

	h := first.grant(0)
	w.mustBe(h, arbiter.Live)
	w.try(v, nil).must(arbiter.Busy)
	second.mustWait()
	third.mustWait()

	w.exit(v, nil, arbiter.Release)
	w.mustBe(h, arbiter.Ended)
	// Until its release is over nobody of this process asks.
	w.try(v, nil).must(arbiter.Busy)
	second.mustWait()

	w.Released("a", h.Lease)
	second.mustAsk()
	third.mustWait()
	w.try(v, nil).must(arbiter.Busy)
	second.grant(0)
	w.leave(v, nil)
	third.mustAsk().grant(0)
	w.leave(third.Via, third.Owner)
}

func TestReentryCountsOverAllHandles(t *testing.T) {
	w := newWorld(t)
	v, u := w.handle("a"), w.handle("a")
	o := new(owner)

	h := w.take(v, o, 0)
	w.call(u, o).must(arbiter.Entered)
	w.try(u, o).must(arbiter.Entered)
	if !w.Reenter(v, o) {
		t.Fatal("Reenter refused the owner that holds")
	}
	if v.Latest() != h || u.Latest() != h {
		t.Fatal("a handle does not remember the hold entered through it")
	}
	for range 3 {
		w.exit(v, o, arbiter.Kept)
		w.mustBe(h, arbiter.Live)
	}
	w.leave(u, o)
	w.mustBe(h, arbiter.Ended)
	w.exit(v, o, arbiter.NotHeld)
	w.exit(u, nil, arbiter.NotHeld)
}

func TestOnlyTheOwnerReenters(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	a, b := new(owner), new(owner)
	if w.Reenter(v, a) {
		t.Fatal("Reenter of a lock that nobody holds")
	}
	c := w.call(v, a).must(arbiter.Ask)
	if w.Reenter(v, a) {
		t.Fatal("Reenter while the owner still asks")
	}
	c.grant(0)
	if w.Reenter(v, b) || w.Reenter(v, nil) {
		t.Fatal("Reenter let in another owner")
	}
	w.leave(v, a)

	w.take(v, nil, 0)
	if w.Reenter(v, nil) {
		t.Fatal("an anonymous call entered again")
	}
	anon := w.call(v, nil).must(arbiter.Queued)
	if w.Quit(anon.Waiter) != nil {
		t.Fatal("Quit of a queued call returned a hold")
	}
	w.leave(v, nil)
}

func TestCallsOfOneOwnerEnterTogether(t *testing.T) {
	for _, how := range []string{"granted by Redis", "passed on"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			v, u := w.handle("a"), w.handle("a")
			o := new(owner)

			asker := w.call(u, nil)
			first := w.call(v, o).must(arbiter.Queued)
			stranger := w.call(u, nil).must(arbiter.Queued)
			second := w.call(u, o).must(arbiter.Queued)
			third := w.fixed(v, o).must(arbiter.Queued) // cannot take over, but can enter again
			other := w.call(u, new(owner)).must(arbiter.Queued)

			var h *hold
			if how == "passed on" {
				asker.must(arbiter.Ask).grant(1)
				w.exit(u, nil, arbiter.Passed)
				h = first.mustHold()
				if !h.Passed {
					t.Fatal("the hold does not say that it was passed on")
				}
			} else {
				w.Quit(asker.must(arbiter.Ask).Waiter)
				h = first.mustAsk().grant(0)
			}
			if second.mustHold() != h || third.mustHold() != h {
				t.Fatal("calls of one owner have different holds")
			}
			stranger.mustWait()
			other.mustWait()
			w.mustWaiting("a", 2)
			if v.Latest() != h || u.Latest() != h {
				t.Fatal("a handle does not remember the hold")
			}

			w.exit(v, o, arbiter.Kept)
			w.exit(v, o, arbiter.Kept)
			w.leave(u, o)
			stranger.mustAsk().grant(0)
			w.leave(u, nil)
			other.mustAsk().grant(0)
			w.leave(u, other.Owner)
		})
	}
}
