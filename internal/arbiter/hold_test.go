package arbiter_test

import (
	"errors"
	"runtime"
	"testing"
	"weak"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

// What the model does not see.

func TestHandleKnowsItsHolds(t *testing.T) {
	w := empty(t)
	v, other := w.handle(write), w.handle(write)
	require.Nil(t, v.Latest())
	for range 100 {
		o := new(owner)
		h := w.take(v, o, 0)
		w.lock(other, o).is(arbiter.Entered)
		require.Same(t, h, other.Latest())
		w.exits(other, o, arbiter.Kept)
		w.leaves(v, o)
		require.Same(t, h, v.Latest())
	}
	require.LessOrEqual(t, v.Open(), 3)
}

// The table keeps nothing of a lost hold, but its owner finds it, and keeps nobody else waiting.
func TestLostHoldAwaitsItsUnlock(t *testing.T) {
	w, o := empty(t), new(owner)
	v, other := w.handle(write), w.handle(write)
	h := w.take(v, o, 0)
	require.Same(t, h, w.Newest(other, o))
	w.loses(h)
	require.Zero(t, w.Len())
	require.Same(t, h, w.Newest(other, o))
	require.True(t, v.MustUnlockFirst(o))
	w.take(other, nil, 0)
	w.leaves(other, nil)
	w.exits(other, o, arbiter.WasLost)
	require.False(t, v.MustUnlockFirst(o))
	require.Nil(t, w.Newest(v, o))
}

func TestFunctionsAreCalledOnceWhenAHoldEnds(t *testing.T) {
	w := empty(t)
	v := w.handle(write)
	var got []arbiter.State
	f, forgotten := func(s arbiter.State) { got = append(got, s) }, func(arbiter.State) { t.Error("a forgotten function was called") }
	h := w.take(v, nil, 0)
	h.OnEnd(&f)
	h.OnEnd(&forgotten)
	h.Forget(&forgotten)
	require.Equal(t, 1, h.Watchers())
	done := h.Done()
	w.loses(h)
	<-done
	<-h.Done()
	h.OnEnd(&f) // at once
	require.Equal(t, []arbiter.State{arbiter.Lost, arbiter.Lost}, got)
	require.False(t, h.End(arbiter.Ended, nil))
	w.exits(v, nil, arbiter.WasLost)
	require.Equal(t, arbiter.Lost, h.State())
}

// Observers hear of each call of Lock once: of its unlock, or of a loss.
func TestCallsThatShareAHoldAreReportedOneByOne(t *testing.T) {
	w := empty(t)
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
			w.enter(v, o, false).reads(10, 0)
			if o == nil {
				w.GrantRead(w.enter(v, o, false).waiter, newLease(0, 0), true, 0)
			}
			return v.Latest()
		},
	} {
		for _, owned := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := empty(t)
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

// A waiter whose lease has another length, or is not shared, gets one of its own; so does
// everybody once the lease may not be passed on any more. The release takes the place in Redis of the waiter that
// wants one.
func TestLeaseIsPassedOnAmongEqualsOnly(t *testing.T) {
	w := empty(t)
	v, other, place := w.handle(write), w.handle(write), newLease(0, 0)
	for _, c := range []struct {
		passes   int
		passable bool
		class    int64
		next     int64
		takes    bool
	}{
		{0, true, 0, 0, true}, {1, true, 7, 7, true}, {1, false, 0, 0, false}, {0, true, 7, 7, true}, {0, false, 7, 0, false},
	} {
		w.take(v, nil, c.passes)
		waits := w.queued(other, c.passable, c.class)
		x := w.exits(v, nil, arbiter.Release)
		require.Equal(t, c.next, x.Next)
		require.False(t, waits.told())
		require.Equal(t, c.takes, w.Released("a", x.Lease, place, c.class))
		require.Equal(t, c.takes, waits.asks().Place == place)
		waits.quits()
	}

	// The one that wanted it has left: the next one wants another length.
	w.take(v, nil, 0)
	leaves := w.queued(v, true, 7)
	x := w.exits(v, nil, arbiter.Release)
	leaves.quits()
	next := w.queued(v, true, 0)
	require.False(t, w.Released("a", x.Lease, place, x.Next))
	require.Nil(t, next.asks().Place)
	next.quits()

	// Its lease was lost meanwhile.
	w.take(v, nil, 0)
	x = w.exits(v, nil, arbiter.Release)
	next = w.queued(v, true, 7)
	require.Empty(t, w.Lose("a", x.Lease, errLost), "its last unlock has been called")
	require.Nil(t, next.asks().Place)
	require.False(t, w.Released("a", x.Lease, place, 7))
	next.quits()
}

// In an open table Redis tells with the next grant that a hold was lost without anybody noticing.
func TestNewestTokenWinsInAnOpenTable(t *testing.T) {
	w := empty(t)
	w.Open = true
	a, b := w.handle(write), w.handle(write)
	old := w.take(a, nil, 0)
	late, next := w.lock(b, nil).is(arbiter.Ask), w.lock(b, nil).is(arbiter.Ask)
	h := next.grant(0)
	require.Equal(t, errGone, old.Cause())
	w.exits(a, nil, arbiter.WasLost)
	got, used := w.Grant(late.waiter, newLease(1, 0), 1)
	require.False(t, used)
	require.Nil(t, got, "a grant from before that one")
	require.Equal(t, arbiter.Live, h.State())
	require.Equal(t, 0, w.Waiting("a", write))
	late.quits()
	w.leaves(b, nil)
}

func TestBlockedCallKnowsWhatItWaitsFor(t *testing.T) {
	w := empty(t)
	v, readers := w.handle(write), w.handle(read)
	require.Zero(t, w.Blocked(v))
	c := w.lock(v, nil).is(arbiter.Ask)
	require.Zero(t, w.Blocked(v))
	w.Report(c.waiter, nil)
	require.True(t, w.Blocked(v).Refused)
	err := errors.New("no answer")
	w.Report(c.waiter, err)
	b := w.Blocked(v)
	require.False(t, b.Refused)
	require.Equal(t, err, b.Err)
	require.Zero(t, w.Blocked(readers))
	h := c.grant(0)
	require.True(t, w.Blocked(v).Held)
	require.Same(t, h.Lease(), w.Blocked(readers).Lease)
	w.leaves(v, nil)

	r := w.lock(readers, nil).is(arbiter.Ask)
	w.Report(r.waiter, err)
	require.Equal(t, err, w.Blocked(readers).Err)
	l := r.reads(never, never).Lease()
	require.Same(t, l, w.Blocked(v).Lease)
	require.False(t, w.Blocked(readers).Held)
	w.exits(readers, nil, arbiter.Release)
}

// Readers with leases of their own have one hold. It rests on the lease that ends last, so that nobody's is cut
// short; the other one is to be released.
func TestLeaseThatLastsLongestStays(t *testing.T) {
	w := empty(t)
	v := w.handle(read)
	h := w.enter(v, nil, false).is(arbiter.Ask).reads(10, 0)
	first := h.Lease()
	for _, c := range []struct {
		until int64
		used  bool
	}{{20, true}, {15, false}} {
		r := w.enter(v, nil, false).is(arbiter.Ask)
		l, before := w.lease(0), h.Lease()
		l.until.Store(c.until)
		got, spare := w.GrantRead(r.waiter, l, true, 0)
		require.Same(t, h, got)
		if c.used {
			require.Same(t, before, spare)
			require.Same(t, l, h.Lease())
		} else {
			require.Same(t, l, spare)
			require.Same(t, before, h.Lease())
		}
	}
	require.Empty(t, w.Lose("a", first, errLost), "it was replaced")
	require.Equal(t, []*lease{h.Lease()}, w.Leases("a"))
	w.now.Store(19)
	w.exits(v, nil, arbiter.Left)
	w.now.Store(20)
	require.Equal(t, []*hold{h}, w.exits(v, nil, arbiter.Expired).Lost)
	w.exits(v, nil, arbiter.WasLost)
}

// A reader that waits enters with the exclusive hold that its owner gets meanwhile: it asks again, as the
// writer.
func TestWaitingReaderEntersWithItsOwnersExclusiveHold(t *testing.T) {
	w, o := empty(t), new(owner)
	v, readers := w.handle(write), w.handle(read)
	writer := w.lock(v, o).is(arbiter.Ask)
	other, mine := w.lock(readers, nil).is(arbiter.Ask), w.lock(readers, o).is(arbiter.Queued)
	h := writer.grant(0)
	require.False(t, other.told())
	mine.asks()
	_, st := w.Standing(mine.waiter)
	require.Equal(t, standing{Writes: true, Write: h.Lease()}, st)
	mine.reads(never, never)
	w.leaves(v, o)
	w.exits(readers, o, arbiter.Release)
	other.quits()
}

func TestHoldPastItsDeadlineIsNotEntered(t *testing.T) {
	w, o := empty(t), new(owner)
	v := w.handle(write)
	h := w.take(v, o, 0)
	h.Lease().until.Store(1)
	w.now.Store(1)
	require.False(t, w.Reenter(v, o))
	w.lock(v, o).is(arbiter.UnlockFirst)
	require.Equal(t, errExpired, h.Cause())
	w.exits(v, o, arbiter.WasLost)
}

// A call that asks Redis when a hold of its handle is lost does not get the lock before the unlock of that: it starts
// over, and waits for it.
func TestContenderDoesNotEnterBesideALostHold(t *testing.T) {
	w := empty(t)
	w.Open = true
	v := w.handle(write)
	h := w.take(v, nil, 0)
	c := w.lock(v, nil).is(arbiter.Ask)
	w.loses(h)
	got, used := w.Grant(c.waiter, w.lease(0), w.token.Load())
	require.False(t, used)
	require.Nil(t, got)
	c.quits()
	c = w.lock(v, nil).is(arbiter.Queued)
	w.exits(v, nil, arbiter.WasLost)

	// Or the next grant tells of the loss.
	c.asks().grant(0)
	other := w.lock(v, nil).is(arbiter.Ask)
	_, used = w.Grant(other.waiter, w.lease(0), w.token.Load())
	require.False(t, used)
	require.Equal(t, 1, w.Len(), "it contends still")
	other.quits()
	w.exits(v, nil, arbiter.WasLost)
}
