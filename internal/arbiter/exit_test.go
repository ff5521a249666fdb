package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

func TestHandOffIsInFIFOOrderAsFarAsTheRulesAllow(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	h := w.take(v, nil, 2)
	var queue []*call
	for range 4 {
		queue = append(queue, w.call(v, nil).must(arbiter.Queued))
	}
	for i := range 2 {
		w.now.Store(int64(100 + i))
		old := h
		if got := w.exit(v, nil, arbiter.Passed); got != old {
			t.Fatal("Exit did not return the hold it ended")
		}
		h = queue[i].mustHold()
		w.mustBe(old, arbiter.Ended)
		w.mustBe(h, arbiter.Live)
		switch {
		case h == old || !h.Passed || h.Lease != old.Lease:
			t.Fatal("a hold that is passed on is a new one on the same lease")
		case h.Token != old.Token+1:
			t.Fatalf("token %d follows %d", h.Token, old.Token)
		case h.Since != int64(100+i):
			t.Fatalf("the hold began at %d, want %d", h.Since, 100+i)
		case v.Latest() != h:
			t.Fatal("the handle does not remember the new hold")
		}
		w.mustWaiting("a", 3-i)
	}
	// The tenure is spent: the third asks Redis, on equal terms with others.
	w.exit(v, nil, arbiter.Release)
	queue[2].mustWait()
	w.Released("a", h.Lease)
	h = queue[2].mustAsk().grant(0)
	if h.Passed {
		t.Fatal("a hold from Redis says it was passed on")
	}
	queue[3].mustWait()
	w.leave(v, nil)
	queue[3].mustAsk().grant(0)
	w.leave(v, nil)
}

func TestLostHoldIsUnlockedAsOftenAsItWasLocked(t *testing.T) {
	w := newWorld(t)
	v := w.handle("a")
	o := new(owner)
	h := w.take(v, o, 0)
	w.call(v, o).must(arbiter.Entered)
	w.Lose("a", h.Lease)
	if w.Reenter(v, o) {
		t.Fatal("a lost hold was entered again")
	}
	w.exit(v, o, arbiter.WasLost)
	if w.Len() != 0 {
		t.Fatal("the table keeps a lost hold; its owner does")
	}
	w.exit(v, o, arbiter.WasLost)
	w.exit(v, o, arbiter.NotHeld)
}
