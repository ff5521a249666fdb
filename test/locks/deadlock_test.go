package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// tryFor locks l under ctx within a time that is enough if it can be locked at all.
func tryFor(t testing.TB, ctx context.Context, l relock.Locker) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, kit.Soon)
	defer cancel()
	err := l.Lock(ctx)
	if err == nil {
		kit.Unlock(t, ctx, l)
	}
	return err
}

// Every lock inside every Do of the same name in its session, by every owner that is not Do's, is a deadlock;
// except readers inside readers. Through another session it waits, and so does a Redlock for another lock's key: its
// keys are those of several sessions.
func TestLockInsideDoOfTheSameName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	for _, outer := range kinds {
		for _, inner := range kinds {
			if alien(&outer, &inner) {
				continue
			}
			name := inner.name + " in " + outer.name
			require.NoError(t, relock.Do(kit.Background, outer.on(s, name), func(ctx context.Context) error {
				l := inner.on(s, name)
				if outer.reads && inner.reads {
					require.NoError(t, tryFor(t, ctx, l), name)
					return nil
				}
				if (outer.name == "Redlock") != (inner.name == "Redlock") {
					ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
					defer cancel()
					require.ErrorIs(t, l.Lock(ctx), context.DeadlineExceeded, name)
					return nil
				}
				for _, ctx := range []context.Context{ctx, s.NewContext(ctx), context.WithoutCancel(ctx)} {
					require.ErrorIs(t, l.Lock(ctx), relock.ErrDeadlock, name)
				}
				err := relock.Do(ctx, l, func(context.Context) error { t.Error("called"); return nil })
				require.ErrorIs(t, err, relock.ErrDeadlock, name)
				require.False(t, kit.TryLock(t, ctx, l), name)
				ran, err := relock.TryDo(ctx, l, func(context.Context) error { t.Error("called"); return nil })
				require.NoError(t, err, name)
				require.False(t, ran, name)
				require.False(t, kit.TryLock(t, ctx, inner.on(other, name)), name)
				require.NoError(t, ctx.Err())
				require.NoError(t, tryFor(t, ctx, inner.on(s, name+", another")), "another name")
				return nil
			}), name)
		}
	}
	require.NoError(t, relock.Do(kit.Background, s.Mutex("lock"), func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		waits := kit.Async(func() error { return other.Mutex("lock").Lock(ctx) })
		waiting(t, s, "lock", 1)
		cancel(kit.ErrStop)
		require.ErrorIs(t, kit.Receive(t, waits, "the call to end"), relock.ErrTaken)
		return nil
	}))
}

// The owner of a Do enters again what it can; for what it cannot, it would wait for itself.
func TestLockInsideDoByItsOwner(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	for _, outer := range kinds[:4] {
		for _, inner := range kinds[:4] {
			name := inner.name + " in " + outer.name
			want := relock.ErrDeadlock
			switch {
			case outer.name == "reader" && inner.name == "writer":
				want = relock.ErrUpgrade
			case outer.name == inner.name || outer.name == "writer" && inner.name == "reader":
				want = nil
			}
			require.NoError(t, relock.Do(s.NewContext(kit.Background), outer.on(s, name), func(ctx context.Context) error {
				require.ErrorIs(t, tryFor(t, ctx, inner.on(s, name)), want, name)
				return nil
			}))
		}
	}
}

// A Do further out counts as well.
func TestLockInsideDoInsideDo(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	require.NoError(t, relock.Do(kit.Background, s.Mutex("a"), func(ctx context.Context) error {
		return relock.Do(s.NewContext(ctx), stranger{s.Mutex("b")}, func(ctx context.Context) error {
			return relock.Do(ctx, s.Mutex("c"), func(ctx context.Context) error {
				err := s.Mutex("a").Lock(ctx)
				require.ErrorIs(t, err, relock.ErrDeadlock)
				require.EqualError(t, err, `relock: lock "a": deadlock: a Do around this call holds the lock, and would wait for itself`)
				require.ErrorIs(t, relock.NewGroup(s.Mutex("d"), s.Mutex("a")).Lock(ctx), relock.ErrDeadlock)
				require.NoError(t, tryFor(t, ctx, s.Mutex("d")), "nothing of the group is left")
				return nil
			})
		})
	}))
}

// When Do's hold is over, a call under its context waits for others, as any does. It may be lost although
// nobody has noticed yet.
func TestLockAfterDo(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		s := kit.NewSession(t, redistest.Start(t))
		var inside context.Context
		require.NoError(t, relock.Do(kit.Background, k.on(s, "lock"), func(ctx context.Context) error {
			inside = context.WithoutCancel(ctx)
			return nil
		}))
		require.NoError(t, tryFor(t, inside, k.on(s, "lock")))
		for _, lose := range []func(ctx context.Context){
			func(ctx context.Context) {
				_, err := s.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
				kit.Receive(t, ctx.Done(), "the loss")
			},
			func(context.Context) { peek.Session(s).Clock.Skip(standstill) },
		} {
			err := relock.Do(kit.Background, k.on(s, "lock"), func(ctx context.Context) error {
				lose(ctx)
				if k.name != "Semaphore" {
					require.NoError(t, tryFor(t, context.WithoutCancel(ctx), s.Mutex("lock")))
				}
				return nil
			})
			require.ErrorIs(t, err, relock.ErrLost)
		}
	})
}

// The owner holds on after a Do within. That is no Do's hold any more.
func TestLockAfterADoWhoseOwnerHoldsOn(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	m, owner := s.Mutex("lock"), s.NewContext(kit.Background)
	kit.Lock(t, owner, m)
	var inside context.Context
	require.NoError(t, relock.Do(owner, m, func(ctx context.Context) error {
		inside = s.NewContext(context.WithoutCancel(ctx))
		require.ErrorIs(t, s.Mutex("lock").Lock(inside), relock.ErrDeadlock)
		return nil
	}))
	require.NoError(t, m.Err())
	waits := kit.Async(func() error { return s.Mutex("lock").Lock(inside) })
	kit.Queued(t, s, "lock", 1)
	kit.Unlock(t, owner, m)
	require.NoError(t, kit.Receive(t, waits, "the other owner to lock"))
}

// A group that has lost one member holds the others until it is unlocked.
func TestLockInsideDoOfALostGroup(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	err := relock.Do(kit.Background, relock.NewGroup(s.Mutex("a"), s.RWMutex("b")), func(ctx context.Context) error {
		_, err := s.ForceUnlock(kit.Background, "a")
		require.NoError(t, err)
		kit.Receive(t, ctx.Done(), "the loss")
		ctx = context.WithoutCancel(ctx)
		require.NoError(t, tryFor(t, ctx, s.Mutex("a")))
		require.ErrorIs(t, s.RWMutex("b").Lock(ctx), relock.ErrDeadlock)
		return nil
	})
	require.ErrorIs(t, err, relock.ErrLost)
}

// A Redlock needs a majority, which a Do may leave.
func TestRedlockInsideDoOfOneOfItsDeployments(t *testing.T) {
	t.Parallel()
	ss := newSite(t, 3).sessions
	require.NoError(t, relock.Do(kit.Background, ss[0].Mutex("lock"), func(ctx context.Context) error {
		return tryFor(t, ctx, relock.NewRedlock(ss, "lock"))
	}))
}

// The context of a hold knows it as Do's does, until it has ended.
func TestLockUnderTheContextOfAHold(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		ss := k.sessions(t)
		for _, owner := range []context.Context{kit.Background, ss[0].NewContext(kit.Background)} {
			h := kit.Acquire(t, owner, k.of(ss, "lock"))
			ctx, cancel := h.Context(owner)
			require.Same(t, h, relock.HoldOf(ctx))
			require.Equal(t, h.Token(), relock.Token(ctx))
			if !k.reads {
				require.ErrorIs(t, k.of(ss, "lock").Lock(ss[0].NewContext(ctx)), relock.ErrDeadlock)
			}
			cancel()
			require.ErrorIs(t, context.Cause(ctx), context.Canceled)
			require.NoError(t, h.Err(), "cancel ends no hold")
			require.NoError(t, h.Unlock(kit.Background))
			require.NoError(t, tryFor(t, context.WithoutCancel(ctx), k.of(ss, "lock")))
		}
	})
}

// A writer waits for the Do that reads. A reader inside it does not wait behind that writer.
func TestReaderInsideDoPassesWaitingWriters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	for what, by := range map[string]*relock.Session{"near": s, "far": other} {
		rw := s.RWMutex(what)
		var written <-chan error
		require.NoError(t, relock.Do(kit.Background, rw.RLocker(), func(ctx context.Context) error {
			written = kit.Async(func() error { return tryFor(t, kit.Background, by.RWMutex(what)) })
			redistest.Eventually(t, kit.Soon, "the writer to keep readers out", func() bool { return !tryRead(t, s.RWMutex(what)) })
			for _, ctx := range []context.Context{ctx, s.NewContext(ctx)} {
				require.NoError(t, tryFor(t, ctx, rw.RLocker()))
				require.NoError(t, tryFor(t, ctx, s.RWMutex(what).RLocker()))
			}
			return relock.Do(ctx, rw.RLocker(), func(context.Context) error { return nil })
		}))
		require.NoError(t, kit.Receive(t, written, "the writer to have written"))
	}
}
