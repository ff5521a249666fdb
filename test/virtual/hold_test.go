package virtual_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
)

// kinds are what observers call the types of locks.
var kinds = map[string]relock.Kind{
	"Mutex": relock.KindMutex, "FairMutex": relock.KindFair, "writer": relock.KindWrite, "reader": relock.KindRead,
	"Group": relock.KindGroup, "mixed Group": relock.KindGroup, "Redlock": relock.KindRedlock, "Semaphore": relock.KindSemaphore,
}

// A lossCounter counts the losses of one kind of locks that a process is told of, be it by an Unlock.
type lossCounter struct {
	relock.NopObserver
	kind relock.Kind
	n    atomic.Int64
}

func (c *lossCounter) Lost(e relock.LostEvent) {
	if e.Kind == c.kind {
		c.n.Add(1)
	}
}

func (c *lossCounter) Released(_ context.Context, e relock.ReleaseEvent) {
	if e.Kind == c.kind && errors.Is(e.Err, relock.ErrLost) {
		c.n.Add(1)
	}
}

// opens forces the lock open while nothing else happens: a renewal under way may find it gone.
func (p *process) opens() {
	p.w.t.Helper()
	time.Sleep(time.Second)
	require.True(p.w.t, p.force())
}

// Hundreds of goroutines share a lock value. Each Lock has its Unlock, and each loss makes one of these return ErrLost;
// no hold is ended twice, and none is left.
func TestSharedLockValueEndsEachHoldOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.process()
		losses := &lossCounter{kind: kinds[w.typ.name]}
		p, other := w.process(relock.WithObserver(losses)), w.process()
		l := p.lock()
		var locked, unlocked, lost atomic.Int64
		ended := func(err error) {
			switch {
			case err == nil:
				unlocked.Add(1)
			case errors.Is(err, relock.ErrLost):
				lost.Add(1)
			default:
				t.Errorf("unlock: %v", err)
			}
		}
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				for range 3 {
					time.Sleep(rand.N(100 * time.Millisecond))
					ctx, cancel := context.WithTimeout(background, time.Hour)
					if rand.IntN(4) == 0 {
						ctx, cancel = context.WithTimeout(background, rand.N(50*time.Millisecond))
					}
					var own *kit.HoldLocker
					by := l
					if rand.IntN(4) == 0 {
						own = kit.NewHoldLocker(l)
						by = own
					}
					err := by.Lock(ctx)
					cancel()
					if err != nil {
						continue
					}
					locked.Add(1)
					time.Sleep(rand.N(2 * time.Millisecond))
					if own == nil {
						ended(l.Unlock(background))
						continue
					}
					was := own.Err()
					err = own.Unlock(background)
					ended(err)
					if was != nil && !errors.Is(err, relock.ErrLost) || !errors.Is(own.Unlock(background), relock.ErrNotHeld) {
						t.Errorf("a hold of its own: %v, %v", was, err)
					}
				}
			})
		}
		over := make(chan struct{})
		go func() { all.Wait(); close(over) }()
		for !kit.IsClosed(over) {
			time.Sleep(rand.N(10 * time.Millisecond))
			other.force()
		}
		synctest.Wait()
		require.Equal(t, locked.Load(), unlocked.Load()+lost.Load())
		require.Equal(t, losses.n.Load(), lost.Load())
		require.Positive(t, lost.Load())
		require.Positive(t, unlocked.Load())
		require.Error(t, l.Err(), "the last one may be lost")
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		time.Sleep(5 * time.Second)
		require.True(t, w.free(), "something is left in Redis")
		require.NoError(t, <-lockAndUnlock(other.opposite()))
	})
}

// A lost Lock makes one Unlock fail, and its error says if a newer hold goes on.
func TestUnlockOfALossTellsOfTheNewerHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held()
		for range 2 {
			p.opens()
			lost(t, l)
			require.NoError(t, l.Lock(background), "it stops no other")
		}
		for range 2 {
			err := l.Unlock(background)
			require.ErrorIs(t, err, relock.ErrForced)
			require.ErrorContains(t, err, "another hold of this lock value")
			require.NoError(t, l.Err())
		}
		require.NoError(t, l.Unlock(background))
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		require.NoError(t, l.Lock(background))
		p.opens()
		lost(t, l)
		err := l.Unlock(background)
		require.ErrorIs(t, err, relock.ErrForced)
		require.NotContains(t, err.Error(), "another hold of this lock value")
		require.True(t, w.free())
	})
}

// Each Acquire of an owner is a Hold of one acquisition, which its own Unlock ends and nothing else. The last one releases.
func TestHoldsOfAnOwnerEndOneByOne(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l, a, b := p.lock(), p.acquirer(), p.acquirer()
		ctx, another := p.s[0].NewContext(background), p.s[0].NewContext(background)
		if w.typ.name == "Group" || w.typ.name == "mixed Group" { // each value is another group
			a, b = kit.NewHoldLocker(l), kit.NewHoldLocker(l)
		}
		for _, locks := range []string{"no", "first", "last"} {
			if locks == "first" {
				require.NoError(t, l.Lock(ctx))
			}
			require.NoError(t, a.Lock(ctx))
			require.NoError(t, b.Lock(ctx))
			require.NotSame(t, a.Hold, b.Hold)
			require.Equal(t, a.Token(), b.Token())
			if locks == "last" {
				require.NoError(t, l.Lock(ctx))
			}
			done := b.Done()
			if locks == "no" {
				require.ErrorIs(t, l.Unlock(ctx), relock.ErrNotHeld, "it ends neither")
			}
			require.NoError(t, a.Unlock(another), "whatever the owner of the context")
			require.True(t, kit.IsClosed(a.Done()))
			require.ErrorIs(t, a.Err(), relock.ErrNotHeld)
			require.ErrorIs(t, a.Unlock(ctx), relock.ErrNotHeld)
			require.False(t, kit.IsClosed(done))
			if locks != "no" {
				require.NoError(t, l.Err())
				require.NoError(t, l.Unlock(ctx))
			}
			require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
			require.ErrorIs(t, l.Unlock(ctx), relock.ErrNotHeld)
			require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
			require.ErrorIs(t, l.Unlock(another), relock.ErrNotHeld)
			time.Sleep(2 * lease)
			require.NoError(t, b.Err())
			require.False(t, w.free())
			require.NoError(t, b.Unlock(background))
			require.True(t, kit.IsClosed(done))
			synctest.Wait()
			require.True(t, w.free())
		}
	})
}

// All Holds of an owner are lost together. It gets nothing until each has been unlocked, which tells of the loss once.
func TestLossOfAnOwnersHolds(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.lock()
		ctx := p.s[0].NewContext(background)
		a, b := kit.NewHoldLocker(l), kit.NewHoldLocker(l)
		require.NoError(t, l.Lock(ctx))
		require.NoError(t, a.Lock(ctx))
		require.NoError(t, b.Lock(ctx))
		told := []<-chan struct{}{a.Done(), b.Done()} // asked for before the loss
		p.opens()
		lost(t, a)
		lost(t, b)
		lost(t, l)
		synctest.Wait()
		for _, done := range told {
			require.True(t, kit.IsClosed(done))
		}
		for _, ends := range []func() error{
			func() error { return a.Unlock(background) },
			func() error { return l.Unlock(ctx) },
			func() error { return b.Unlock(background) },
		} {
			require.ErrorIs(t, l.Lock(ctx), relock.ErrLost)
			require.ErrorIs(t, kit.NewHoldLocker(l).Lock(ctx), relock.ErrLost)
			require.ErrorIs(t, ends(), relock.ErrForced)
			require.ErrorIs(t, ends(), relock.ErrNotHeld)
		}
		require.NoError(t, l.Lock(ctx))
		require.NoError(t, l.Unlock(ctx))
		require.ErrorIs(t, a.Err(), relock.ErrForced, "for good")
	})
}

// Calls of an owner that wait at the same time have the lock together, and each ends its own part.
func TestConcurrentCallsOfAnOwnerAreEachEnded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for _, taken := range []bool{false, true} {
			l, ctx, holder := p.lock(), p.s[0].NewContext(background), other.opposite()
			if taken {
				require.NoError(t, holder.Lock(background))
			}
			var all []<-chan error
			var holds []*kit.HoldLocker
			for range 5 {
				a := kit.NewHoldLocker(l)
				holds, all = append(holds, a), append(all, begin(ctx, a), begin(ctx, l))
			}
			if time.Sleep(time.Second); taken {
				require.NoError(t, holder.Unlock(background))
			}
			for _, one := range all {
				require.NoError(t, <-one)
			}
			for _, h := range holds {
				require.NoError(t, l.Unlock(ctx))
				require.NoError(t, h.Err())
				require.False(t, w.free())
				require.NoError(t, h.Unlock(ctx))
			}
			require.ErrorIs(t, l.Unlock(ctx), relock.ErrNotHeld)
			time.Sleep(time.Second)
			require.True(t, w.free())
		}
	})
}

// What has ended a hold first is what Err tells, for good.
func TestErrOfAHoldIsForGood(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		h := p.taken()
		p.opens()
		lost(t, h)
		err := h.Err()
		require.ErrorIs(t, err, relock.ErrForced)
		require.ErrorIs(t, h.Unlock(background), relock.ErrForced)
		require.ErrorIs(t, h.Unlock(background), relock.ErrNotHeld)
		require.ErrorIs(t, h.Err(), relock.ErrForced)
		require.True(t, kit.IsClosed(h.Done()))
		_, held := h.Deadline()
		require.False(t, held)

		l, ctx := p.lock(), p.s[0].NewContext(background)
		first, second := kit.NewHoldLocker(l), kit.NewHoldLocker(l)
		require.NoError(t, first.Lock(ctx))
		require.NoError(t, second.Lock(ctx))
		require.NoError(t, first.Unlock(background))
		p.opens()
		lost(t, second)
		require.ErrorIs(t, first.Err(), relock.ErrNotHeld)
		require.NotErrorIs(t, first.Err(), relock.ErrLost)
		require.ErrorIs(t, second.Unlock(background), relock.ErrLost)
		require.ErrorIs(t, second.Err(), relock.ErrLost)
		require.NotErrorIs(t, first.Err(), relock.ErrLost)
		require.NoError(t, p.closeAll(time.Minute))
		require.NotErrorIs(t, first.Err(), relock.ErrLost)
	})
}

func TestContextOfAHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		why := errors.New("why")
		parent, end := context.WithCancelCause(background)
		for what, c := range map[string]struct {
			end  func(h *kit.HoldLocker, cancel func())
			want []error // of the cause
			err  error   // of the hold
		}{
			"loss":   {func(*kit.HoldLocker, func()) { p.opens() }, []error{relock.ErrLost, relock.ErrForced}, relock.ErrForced},
			"cancel": {func(_ *kit.HoldLocker, cancel func()) { cancel() }, []error{context.Canceled}, nil},
			"parent": {func(*kit.HoldLocker, func()) { end(why) }, []error{why}, nil},
		} {
			h := p.taken()
			ctx, cancel := h.Context(parent)
			require.Same(t, h.Hold, relock.HoldOf(ctx), what)
			require.Equal(t, h.Token(), relock.Token(ctx), what)
			derived, stop := context.WithCancel(ctx)
			require.Same(t, h.Hold, relock.HoldOf(derived), what)
			time.Sleep(2 * lease)
			require.NoError(t, ctx.Err(), what)
			c.end(h, cancel)
			<-derived.Done()
			for _, want := range c.want {
				require.ErrorIs(t, context.Cause(derived), want, what)
			}
			require.ErrorIs(t, h.Err(), c.err, what)
			require.Same(t, h.Hold, relock.HoldOf(ctx), what)
			again, cancelAgain := h.Context(background)
			require.Equal(t, c.err == nil, again.Err() == nil, what)
			cancel()
			cancel()
			stop()
			cancelAgain()
			if w.typ.name == "Mutex" && c.err == nil {
				require.Zero(t, peek.Watchers(p.s[0], "a"), what)
			}
			require.Equal(t, c.err == nil, h.Unlock(background) == nil, what)
			if what == "parent" {
				parent, end = context.WithCancelCause(background)
			}
		}
		end(nil)

		// After the end of the hold it has ended.
		h := p.taken()
		require.NoError(t, h.Unlock(background))
		ctx, cancel := h.Context(background)
		defer cancel()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), relock.ErrNotHeld)
		h = p.taken()
		p.opens()
		lost(t, h)
		ctx, cancel = h.Context(background)
		defer cancel()
		require.ErrorIs(t, context.Cause(ctx), relock.ErrForced)
		require.ErrorIs(t, h.Unlock(background), relock.ErrForced)
		require.True(t, w.free())
	})
}

// A context of the process ends the moment it likes: the hold has ended, and nothing is ever left held.
func TestHandoffWhoseContextEndsAtAnyMomentLeavesNothing(t *testing.T) {
	const d, way = time.Second, 2 * time.Millisecond
	onMutex(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		require.NoError(t, other.adopts(p.handsOff(d)).Unlock(background)) // the server knows the scripts
		p.delay(way)
		tickets := 0
		for _, waits := range []bool{false, true} {
			for at := time.Duration(0); at < 6*way; at += way / 8 {
				h := p.taken()
				var waiter <-chan error
				if waits {
					waiter = lockAndUnlock(other.mutex())
					time.Sleep(100 * time.Millisecond)
				}
				ctx, cancel := context.WithCancel(background)
				if time.AfterFunc(at, cancel); at == 0 {
					cancel()
				}
				ticket, err := h.Handoff(ctx, d)
				cancel()
				require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
				require.ErrorIs(t, h.Unlock(background), relock.ErrNotHeld)
				switch {
				case err == nil && tickets%2 == 0:
					require.NoError(t, other.adopts(ticket).Unlock(background))
					tickets++
				case err == nil:
					tickets++
				default:
					require.Empty(t, ticket)
					require.ErrorIs(t, err, context.Canceled, at)
				}
				start := time.Now()
				if !waits {
					waiter = lockAndUnlock(other.mutex())
				}
				require.NoError(t, <-waiter)
				require.LessOrEqual(t, time.Since(start), d+100*time.Millisecond, at)
				time.Sleep(2 * d)
				require.True(t, w.free(), at)
			}
		}
		require.Positive(t, tickets)
		require.NoError(t, p.closeAll(time.Second))
	})
}

// Only a Mutex can be handed off. The hold of another lock has ended all the same.
func TestHandoffOfAnotherLockIsRefusedAndEndsTheHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if w.typ.name == "Mutex" {
			return
		}
		h := w.process().taken()
		ticket, err := h.Handoff(background, time.Minute)
		require.ErrorIs(t, err, relock.ErrOption)
		require.Empty(t, ticket)
		require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, h.Unlock(background), relock.ErrNotHeld)
		synctest.Wait()
		require.True(t, w.free())
	})
}

// The members of a Group's hold are what it holds, and end with it.
func TestMembersOfAHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		h := p.taken()
		defer func() { assert.NoError(t, h.Unlock(background)) }()
		members := h.Members()
		if len(w.typ.names) < 2 {
			require.Nil(t, members)
			return
		}
		require.Len(t, members, 2)
		for i, m := range members {
			require.Equal(t, w.typ.names[i], m.Name())
			require.Positive(t, m.Token())
			require.NoError(t, m.Err())
			require.ErrorIs(t, m.Unlock(background), relock.ErrOption)
			_, err := m.Handoff(background, time.Minute)
			require.ErrorIs(t, err, relock.ErrOption)
			require.False(t, isClosed(m.Done()))
		}
		p.opens()
		lost(t, h)
		for _, m := range members {
			lost(t, m)
		}
		require.ErrorIs(t, h.Unlock(background), relock.ErrForced)
		require.NoError(t, h.Lock(background))
		members = h.Members()
		require.NoError(t, h.Unlock(background))
		for _, m := range members {
			require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
			require.True(t, kit.IsClosed(m.Done()))
		}
		require.NoError(t, h.Lock(background))
	})
}

// Outside of Do there is no hold, which can be asked all the same.
func TestMethodsOfNoHold(t *testing.T) {
	h := relock.HoldOf(background)
	require.Nil(t, h)
	require.Zero(t, relock.Token(background))
	require.Empty(t, h.Name())
	require.Zero(t, h.Token())
	require.Equal(t, -1, h.Slot())
	_, held := h.Deadline()
	require.False(t, held)
	require.True(t, kit.IsClosed(h.Done()))
	require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
	require.ErrorIs(t, h.Unlock(background), relock.ErrNotHeld)
	require.Nil(t, h.Wanted())
	require.Nil(t, h.Members())
	_, err := h.Handoff(background, time.Minute)
	require.ErrorIs(t, err, relock.ErrNotHeld)
	ctx, cancel := h.Context(background)
	defer cancel()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(ctx), relock.ErrNotHeld)
	require.Nil(t, relock.HoldOf(ctx))
}
