package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

func TestLookupAndHoldsShowLiveHolds(t *testing.T) {
	w := newWorld(t)
	v, u := w.handle("a"), w.handle("b")
	if w.Lookup("a") != nil || len(w.Holds()) != 0 {
		t.Fatal("an empty table has holds")
	}
	asker := w.call(v, nil)
	if w.Lookup("a") != nil {
		t.Fatal("an asker has a hold")
	}
	h := asker.grant(1)
	g := w.take(u, new(owner), 0)
	if w.Lookup("a") != h || w.Lookup("b") != g || len(w.Holds()) != 2 {
		t.Fatal("live holds are not found")
	}
	next := w.call(v, nil)
	w.exit(v, nil, arbiter.Passed)
	if w.Lookup("a") != next.mustHold() {
		t.Fatal("the hold that was passed on is not found")
	}
	w.Lose("b", g.Lease)
	if w.Lookup("b") != nil || len(w.Holds()) != 1 {
		t.Fatal("a lost hold is found")
	}
	w.exit(u, g.Owner, arbiter.WasLost)
	w.leave(v, nil)
}

func TestReleasedSaysNothingOfAHoldThatIsLive(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	h := w.take(v, nil, 0)
	w.Released("a", h.Lease)
	w.Released("b", h.Lease)
	w.mustBe(h, arbiter.Live)
	if w.Lookup("a") != h {
		t.Fatal("a live hold was forgotten")
	}
	w.leave(v, nil)
}

func TestDoneClosesHoweverTheHoldEnds(t *testing.T) {
	for name, end := range map[string]func(*world, *handle, *hold){
		"unlocked": func(w *world, v *handle, _ *hold) { w.leave(v, nil) },
		"passed": func(w *world, v *handle, h *hold) {
			h.Lease.passes = 1
			c := w.call(v, nil)
			w.exit(v, nil, arbiter.Passed)
			w.mustBe(c.mustHold(), arbiter.Live)
			w.leave(v, nil)
		},
		"lost": func(w *world, v *handle, _ *hold) {
			w.lose(v)
			w.exit(v, nil, arbiter.WasLost)
		},
		"expired": func(w *world, v *handle, h *hold) {
			h.Lease.until.Store(0)
			w.exit(v, nil, arbiter.Expired)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			v := w.handle("a")
			h := w.take(v, nil, 0)
			done := h.Done()
			select {
			case <-done:
				t.Fatal("Done is closed and the hold is live")
			default:
			}
			end(w, v, h)
			select {
			case <-done:
			default:
				t.Fatal("the hold has ended and Done is open")
			}
			if h.End(arbiter.Lost) {
				t.Fatal("the hold ended twice")
			}
		})
	}
}

func TestZeroHandleIsInvalid(t *testing.T) {
	var v handle
	if v.Valid() || v.Latest() != nil || v.Name() != "" || (*handle)(nil).Valid() || (*handle)(nil).Latest() != nil {
		t.Fatal("the zero handle belongs to a table")
	}
}
