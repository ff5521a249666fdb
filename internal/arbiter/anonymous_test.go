package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// readsUntil takes a read hold with a lease of its own that is over at a time.
func (w *rwWorld) readsUntil(via *rwHandle, o *arbiter.Owner, ends int64) *rwHold {
	w.t.Helper()
	c := w.fixedRLock(via, o).must(arbiter.Ask)
	lease := newRWLease(0)
	lease.ends = ends
	lease.until.Store(ends)
	h, used := w.GrantRead(c.Waiter, lease, true, 0)
	if !used {
		w.t.Fatal("not used")
	}
	return h
}

// The lease that is over first goes first, in whatever order they were taken.
func TestRWAnAnonymousUnlockEndsTheLeaseThatIsOverFirst(t *testing.T) {
	w := newRWWorld(t)
	v := w.handle()
	b, a, c := w.readsUntil(v, nil, 20), w.readsUntil(v, nil, 10), w.readsUntil(v, nil, 30)
	owned := w.readsUntil(v, new(arbiter.Owner), 5)
	for _, h := range []*rwHold{a, b} {
		if got := w.exit(v, nil, readSide, arbiter.Release); got != h {
			t.Fatalf("ended %+v, want %+v", got, h)
		}
		for _, h := range []*rwHold{a, b, c, owned} {
			w.mustBe(h, arbiter.Live)
		}
	}
	if got := w.exit(v, nil, readSide, arbiter.Release); got != c {
		t.Fatalf("ended %+v, want %+v", got, c)
	}
	for _, h := range []*rwHold{a, b, c} {
		w.mustBe(h, arbiter.Ended)
	}
	w.mustBe(owned, arbiter.Live)
	w.exit(v, nil, readSide, arbiter.Release) // there is no other
	w.mustBe(owned, arbiter.Ended)
	w.exit(v, nil, readSide, arbiter.NotHeld)
}

// The value tells of the hold that is left, also if that is not the latest.
func TestRWAfterAnAnonymousUnlockTheLatestHoldIsALiveOne(t *testing.T) {
	w := newRWWorld(t)
	v := w.handle()
	long, short := w.readsUntil(v, nil, 20), w.readsUntil(v, nil, 10)
	if v.Latest() != short {
		t.Fatal("not the latest")
	}
	if got := w.exit(v, nil, readSide, arbiter.Release); got != short || v.Latest() != long {
		t.Fatalf("ended %+v, latest %+v", got, v.Latest())
	}
	w.Lose("a", long.Lease)
	w.mustBe(short, arbiter.Lost)
	w.mustBe(long, arbiter.Lost)
	w.exit(v, nil, readSide, arbiter.WasLost)
	w.exit(v, nil, readSide, arbiter.NotHeld)
}

// Readers that come and go and leave no gap make nothing grow: a hold whose lease was
// released ends when that would have been over.
func TestRWAHoldWithoutItsLeaseEndsWithItsTime(t *testing.T) {
	w := newRWWorld(t)
	v := w.handle()
	const lasts = 5
	holds := []*rwHold{w.readsUntil(v, nil, lasts)}
	for now := int64(1); now < 100; now++ {
		w.clock.Store(now)
		holds = append(holds, w.readsUntil(v, nil, now+lasts))
		w.exit(v, nil, readSide, arbiter.Release)
		for i, h := range holds {
			want := arbiter.Live
			if h.Lease.ends <= now {
				want = arbiter.Lost
			}
			if h.State() != want {
				t.Fatalf("at %d hold %d of %d is %d, want %d", now, i, len(holds), h.State(), want)
			}
		}
	}
	if n := holds[len(holds)-1].Watchers(); n != 1 {
		t.Fatalf("%d watch the hold that is left", n)
	}
	w.exit(v, nil, readSide, arbiter.Release)
	for _, h := range holds {
		if h.State() == arbiter.Live {
			t.Fatal("live after the last unlock")
		}
	}
}

// The same of a book.
func TestBookEndsTheAnonymousHoldThatIsOverFirst(t *testing.T) {
	book := newBook()
	a, b := &arbiter.Hold[int]{Lease: 1}, &arbiter.Hold[int]{Lease: 2}
	owner := &arbiter.Hold[int]{Owner: new(owner)}
	for _, h := range []*arbiter.Hold[int]{b, a, owner} {
		book.Add(h)
	}
	if h, over, parted := book.Exit(nil); h != a || !over || !parted || a.State() != arbiter.Live {
		t.Fatalf("Exit = %+v, %t, %t", h, over, parted)
	}
	if h, over, parted := book.Exit(nil); h != b || !over || parted {
		t.Fatalf("Exit = %+v, %t, %t", h, over, parted)
	}
	b.End(arbiter.Ended)
	if a.State() != arbiter.Ended {
		t.Fatal("live after the last one")
	}
	if h, over, parted := book.Exit(nil); h != owner || !over || parted {
		t.Fatalf("Exit = %+v, %t, %t", h, over, parted)
	}
}
