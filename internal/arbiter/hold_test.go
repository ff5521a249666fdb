package arbiter_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

func TestOwnerReenters(t *testing.T) {
	w, o := empty(t, false), new(owner)
	v, other := w.handle(write), w.handle(write)
	h := w.take(v, o, 0)
	w.lock(other, o).is(arbiter.Entered)
	require.True(t, w.Reenter(v, o))
	require.Same(t, h, other.Latest())
	w.exits(v, o, arbiter.Kept)
	w.exits(other, o, arbiter.Kept)
	w.is(h, arbiter.Live)
	w.leaves(v, o)
	w.is(h, arbiter.Ended)
	require.False(t, w.Reenter(v, o))
	w.exits(v, o, arbiter.NotHeld)
}

// A handle is an owner as a sync.Mutex is: it never enters again, and others are not let in with it.
func TestHandleExcludesItself(t *testing.T) {
	for _, open := range []bool{false, true} {
		w := empty(t, open)
		v, other := w.handle(write), w.handle(write)
		w.take(v, nil, 0)
		require.False(t, w.Reenter(v, v.OwnerOf(background)))
		w.try(v, nil).is(arbiter.Busy)
		w.exits(other, nil, arbiter.NotHeld)
		if open {
			w.lock(v, nil).is(arbiter.Ask).quits()
		} else {
			w.lock(v, nil).is(arbiter.Queued).waits().quits()
		}
		w.leaves(v, nil)
	}
}

func TestUnlockWithoutOwnerEndsWhatWasTakenLast(t *testing.T) {
	w, a, b := empty(t, false), new(owner), new(owner)
	v := w.handle(read)
	first := w.lock(v, a).is(arbiter.Ask).reads(never, never)
	w.lock(v, b).is(arbiter.Joined)
	w.lock(v, a).is(arbiter.Entered)
	require.Same(t, first, w.exits(v, nil, arbiter.Kept).Hold)
	require.Same(t, first, w.exits(v, nil, arbiter.Left).Hold)
	require.Same(t, b, w.exits(v, nil, arbiter.Release).Hold.Owner)
	w.exits(v, nil, arbiter.NotHeld)
}

// What a handle itself has lost comes first: its late Unlock does not end what an owner took through it later.
func TestLateUnlockDoesNotEndTheHoldOfAnOwner(t *testing.T) {
	w, o := empty(t, false), new(owner)
	v := w.handle(write)
	w.loses(w.take(v, nil, 0))
	h := w.take(v, o, 0)
	w.exits(v, nil, arbiter.WasLost)
	w.is(h, arbiter.Live)
	w.leaves(v, nil)
	w.is(h, arbiter.Ended)
}

func TestHandleForgetsHoldsThatAreOver(t *testing.T) {
	w := empty(t, false)
	v := w.handle(write)
	for range 100 {
		o := new(owner)
		w.take(v, o, 0)
		w.leaves(v, o)
	}
	require.LessOrEqual(t, v.Open(), 3)
}

// What the owner of a lost hold does until it has unlocked it.
func TestLostHoldAwaitsItsUnlock(t *testing.T) {
	for _, open := range []bool{false, true} {
		w, o := empty(t, open), new(owner)
		v, other := w.handle(write), w.handle(write)
		h := w.take(v, o, 0)
		w.lock(v, o).is(arbiter.Entered)
		w.loses(h)
		require.Zero(t, w.Len(), "the table keeps nothing of it")
		require.Same(t, h, w.Newest(other, o))
		require.True(t, v.MustUnlockFirst(o))
		w.lock(other, o).is(arbiter.UnlockFirst)
		w.take(other, nil, 0) // others do not wait for that
		w.leaves(other, nil)
		w.exits(other, o, arbiter.WasLost)
		w.lock(v, o).is(arbiter.UnlockFirst)
		w.exits(v, o, arbiter.WasLost)
		require.False(t, v.MustUnlockFirst(o))
		require.Nil(t, w.Newest(v, o))
		w.exits(v, o, arbiter.NotHeld)
		w.take(v, o, 0)
		w.leaves(v, o)
	}
}

// An unlock that comes late, after a deadline that nobody has noticed, finds its hold lost.
func TestUnlockAfterTheDeadline(t *testing.T) {
	w := empty(t, false)
	v, readers := w.handle(write), w.handle(read)
	h := w.take(v, nil, 1)
	next := w.lock(w.handle(write), nil).is(arbiter.Queued)
	h.Lease().until.Store(1)
	w.now.Store(1)
	x := w.exits(v, nil, arbiter.Expired)
	require.Equal(t, []*hold{h}, x.Lost)
	require.Equal(t, errExpired, h.Cause())
	next.asks().quits()
	w.exits(v, nil, arbiter.NotHeld)

	h = w.lock(readers, nil).is(arbiter.Ask).reads(9, never)
	w.lock(readers, nil).is(arbiter.Joined)
	w.now.Store(9)
	w.exits(readers, nil, arbiter.Expired)
	w.is(h, arbiter.Lost)
	w.exits(readers, nil, arbiter.WasLost)
	w.exits(readers, nil, arbiter.NotHeld)
}

func TestHoldPastItsDeadlineIsNotEntered(t *testing.T) {
	for _, side := range []arbiter.Side{write, read} {
		w, o := empty(t, false), new(owner)
		v := w.handle(side)
		c := w.lock(v, o).is(arbiter.Ask)
		var h *hold
		if side == write {
			h = c.grant(0)
			h.Lease().until.Store(1)
		} else {
			h = c.reads(1, never)
		}
		w.now.Store(1)
		require.False(t, w.Reenter(v, o))
		w.lock(v, o).is(arbiter.UnlockFirst)
		require.Equal(t, errExpired, h.Cause())
		w.exits(v, o, arbiter.WasLost)
	}
}

// A read hold of the same owner, which is certain still, does not hide that.
func TestExclusiveHoldPastItsDeadlineIsNotEnteredByAReader(t *testing.T) {
	w, o := empty(t, false), new(owner)
	v, readers := w.handle(write), w.handle(read)
	h := w.take(v, o, 0)
	w.lock(readers, o).is(arbiter.Ask).reads(never, never)
	h.Lease().until.Store(1)
	w.now.Store(1)
	require.False(t, w.Reenter(v, o))
	w.lock(v, o).is(arbiter.Upgrade)
	w.is(h, arbiter.Lost)
	w.exits(readers, o, arbiter.Release)
	w.exits(v, o, arbiter.WasLost)
}

func TestFunctionsAreCalledOnceWhenAHoldEnds(t *testing.T) {
	w := empty(t, false)
	v := w.handle(write)
	var got []arbiter.State
	f, forgotten := func(s arbiter.State) { got = append(got, s) }, func(arbiter.State) { t.Error("a forgotten function was called") }
	h := w.take(v, nil, 0)
	h.OnEnd(&f)
	h.OnEnd(&forgotten)
	h.Forget(&forgotten)
	require.Equal(t, 1, h.Watchers())
	w.loses(h)
	h.OnEnd(&f) // at once
	require.Equal(t, []arbiter.State{arbiter.Lost, arbiter.Lost}, got)
	require.False(t, h.End(arbiter.Ended, nil))
	w.exits(v, nil, arbiter.WasLost)
	w.is(h, arbiter.Lost)
}

// Observers hear of each call of Lock once: of its unlock, or of a loss.
func TestCallsThatShareAHoldAreReportedOneByOne(t *testing.T) {
	w := empty(t, false)
	v := w.handle(read)
	h := w.lock(v, nil).is(arbiter.Ask).reads(never, never)
	for at := range int64(3) {
		w.lock(v, nil).is(arbiter.Joined)
		require.NoError(t, h.Reported(at))
	}
	require.Equal(t, []int64{0}, h.Over(false))
	w.loses(h)
	require.Equal(t, []int64{1, 2}, h.Over(true))
	require.Equal(t, errLost, h.Reported(3), "a call that returns later is lost as well")
	require.Empty(t, h.Over(true))
	for range 4 {
		w.exits(v, nil, arbiter.WasLost)
	}
}

// Nobody unlocks a lost hold: when its handle is garbage, and its owner if it has one, so is all that is left
// of it.
func TestLostHoldIsGarbageWithItsHandleAndItsOwner(t *testing.T) {
	for name, take := range map[string]func(w *world, o *owner) *hold{
		"writer": func(w *world, o *owner) *hold { return w.take(w.handle(write), o, 0) },
		"reader": func(w *world, o *owner) *hold {
			v := w.handle(read)
			h := w.lock(v, o).reads(never, never)
			w.lock(v, o)
			return h
		},
		"reader with a lease of its own": func(w *world, o *owner) *hold {
			v := w.handle(read)
			w.fixed(v, o).reads(10, 0)
			if o == nil {
				l := newLease(0, 0)
				w.GrantRead(w.fixed(v, o).waiter, l, true, 0)
			}
			return v.Latest()
		},
	} {
		for _, owned := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := empty(t, false)
				var o *owner
				if owned {
					o = new(owner)
				}
				h := take(w, o)
				w.loses(h)
				left := weak.Make(h.Lease())
				h, o = nil, nil
				for range 100 {
					if runtime.GC(); left.Value() == nil {
						return
					}
				}
				t.Fatal("something refers to its lease")
				runtime.KeepAlive(w)
			})
		}
	}
}
