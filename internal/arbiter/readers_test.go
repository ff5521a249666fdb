package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

func TestReadersShareALeaseWhileNoWriterWaits(t *testing.T) {
	w := empty(t, false)
	a, b, writer := w.handle(read), w.handle(read), w.handle(write)
	first := w.lock(a, nil).is(arbiter.Ask).reads(never, 10)
	w.lock(b, nil).is(arbiter.Joined)
	w.now.Store(10) // Redis has to be asked again
	c := w.lock(b, nil).is(arbiter.Ask)
	_, st := w.Standing(c.waiter)
	require.Equal(t, standing{Confirm: true, Read: first.Lease()}, st)
	queued := w.lock(a, nil).is(arbiter.Queued)
	h, spare := w.GrantRead(c.waiter, first.Lease(), false, 20)
	require.Nil(t, spare)
	require.Same(t, first.Lease(), h.Lease())
	require.Same(t, first, queued.holds())

	waits := w.lock(writer, nil).is(arbiter.Ask)
	w.lock(b, nil).is(arbiter.Ask).quits() // behind the writer
	inside := &call{waiter: w.Waiter(b, ownerOf(b, nil), true, 0), w: w}
	inside.Inside = true
	require.Equal(t, arbiter.Joined, w.Enter(inside.waiter, true), "the writer waits for its caller")
	waits.quits()
	for range 2 {
		w.exits(a, nil, arbiter.Left)
	}
	for range 2 {
		w.exits(b, nil, arbiter.Left)
	}
	w.exits(b, nil, arbiter.Release)
}

func TestReadersOfAHandleAreCounted(t *testing.T) {
	w := empty(t, false)
	v := w.handle(read)
	h := w.lock(v, nil).is(arbiter.Ask).reads(never, never)
	w.lock(v, nil).is(arbiter.Joined)
	w.exits(v, nil, arbiter.Left)
	w.is(h, arbiter.Live)
	w.exits(v, nil, arbiter.Release)
	w.is(h, arbiter.Ended)
	w.exits(v, nil, arbiter.NotHeld)
}

// Readers with leases of their own have one hold. It rests on the lease that ends last, so that nobody's is cut
// short; the other one is to be released.
func TestLeaseThatLastsLongestStays(t *testing.T) {
	w := empty(t, false)
	v := w.handle(read)
	h := w.fixed(v, nil).is(arbiter.Ask).reads(10, 0)
	first := h.Lease()
	for _, c := range []struct {
		until int64
		used  bool
	}{{20, true}, {15, false}} {
		r := w.fixed(v, nil).is(arbiter.Ask)
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

func TestWriterReadsAndDowngrades(t *testing.T) {
	w, o := empty(t, false), new(owner)
	v, readers := w.handle(write), w.handle(read)
	wh := w.take(v, o, 1)
	c := w.lock(readers, o).is(arbiter.Ask)
	_, st := w.Standing(c.waiter)
	require.Equal(t, standing{Writes: true, Write: wh.Lease()}, st)
	c.reads(never, never)
	w.lock(v, o).is(arbiter.Entered)
	w.exits(v, o, arbiter.Kept)
	other, next := w.lock(w.handle(read), nil).is(arbiter.Ask), w.lock(w.handle(write), nil).is(arbiter.Queued)
	w.leaves(v, o) // to nobody: it reads on
	next.asks().quits()
	w.lock(v, o).is(arbiter.Upgrade)
	w.try(v, o).is(arbiter.Upgrade)
	w.try(v, nil).is(arbiter.Busy)
	got, _ := w.Standing(other.waiter)
	require.NotNil(t, got, "it may join now")
	w.exits(readers, o, arbiter.Left)
	w.exits(other.Via, nil, arbiter.Release)
}

// A reader that waits enters with the exclusive hold that its owner gets meanwhile: it asks again, as the
// writer.
func TestWaitingReaderEntersWithItsOwnersExclusiveHold(t *testing.T) {
	w, o := empty(t, false), new(owner)
	v, readers := w.handle(write), w.handle(read)
	writer := w.lock(v, o).is(arbiter.Ask)
	other, mine := w.lock(readers, nil).is(arbiter.Ask), w.lock(readers, o).is(arbiter.Queued)
	h := writer.grant(0)
	other.waits()
	mine.asks()
	_, st := w.Standing(mine.waiter)
	require.Equal(t, standing{Writes: true, Write: h.Lease()}, st)
	mine.reads(never, never)
	w.leaves(v, o)
	w.exits(readers, o, arbiter.Release)
	other.quits()
}

func TestReaderMustUnlockWhatItLost(t *testing.T) {
	w, o := empty(t, false), new(owner)
	v, other := w.handle(read), w.handle(read)
	w.lock(v, o).is(arbiter.Ask).reads(never, 0)
	w.exits(v, o, arbiter.Release)

	// It was asking when its owner's hold was lost.
	asks := w.try(v, o).is(arbiter.Ask)
	h := w.try(other, o).is(arbiter.Ask).reads(never, 0)
	w.loses(h)
	_, st := w.Standing(asks.waiter)
	require.True(t, st.Refused)
	l := w.lease(0)
	got, spare := w.GrantRead(asks.waiter, l, true, 0)
	require.Nil(t, got)
	require.Same(t, l, spare)
	asks.quits()
	w.lock(v, o).is(arbiter.UnlockFirst)
	w.exits(v, o, arbiter.WasLost)
}

// A call that asks Redis when a hold of its handle is lost does not get the lock before the unlock of that: it starts
// over, and waits for it.
func TestContenderDoesNotEnterBesideALostHold(t *testing.T) {
	w := empty(t, true)
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
