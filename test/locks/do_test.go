package locks_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

var errOwn = errors.New("the function's own error")

func TestDoLocksAroundTheFunction(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m, ctx := s.Mutex("lock"), context.WithValue(kit.Background, traffic{}, "value")
		var inside context.Context
		for _, want := range []error{nil, errOwn} {
			err := relock.Do(ctx, m, func(ctx context.Context) error {
				inside = ctx
				require.NoError(t, m.Err())
				require.NoError(t, ctx.Err())
				require.Equal(t, "value", ctx.Value(traffic{}))
				return want
			})
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
			require.ErrorIs(t, inside.Err(), context.Canceled, "the context ends with the function")
			require.NotErrorIs(t, context.Cause(inside), relock.ErrLost)
		}
	})
}

func TestDoWithoutTheLockCallsNothing(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m := s.Mutex("lock")
		called := func(context.Context) error { t.Error("called"); return nil }
		ctx, cancel := context.WithCancelCause(kit.Background)
		cancel(kit.ErrStop)
		wantStopped(t, relock.Do(ctx, m, called), context.Canceled)
		require.ErrorIs(t, relock.Do(kit.Background, s.Mutex(""), called), relock.ErrName)
		require.NoError(t, s.Close(kit.Background))
		require.ErrorIs(t, relock.Do(kit.Background, m, called), relock.ErrClosed)
	})
}

// The caller's context ends while the function runs: that is no loss, and the lock is
// released all the same.
func TestDoUnderAContextThatEnds(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		ctx, cancel := context.WithCancelCause(kit.Background)
		err := relock.Do(ctx, s.Mutex("lock"), func(ctx context.Context) error {
			cancel(kit.ErrStop)
			kit.Receive(t, ctx.Done(), "the context to end")
			require.ErrorIs(t, context.Cause(ctx), kit.ErrStop)
			require.True(t, kit.Exists(t, client, "lock"))
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, relock.ErrLost)
		require.False(t, kit.Exists(t, client, "lock"))
	})
}

func TestDoUnlocksWhenTheFunctionPanics(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		require.PanicsWithValue(t, "ouch", func() {
			_ = relock.Do(kit.Background, s.Mutex("lock"), func(context.Context) error { panic("ouch") })
		})
		require.False(t, kit.Exists(t, client, "lock"))
	})
}

func TestDoMayBeNestedUnderAnOwner(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m := s.Mutex("lock")
		err := relock.Do(s.NewContext(kit.Background), m, func(ctx context.Context) error {
			err := relock.Do(ctx, s.Mutex("lock"), func(context.Context) error { return errOwn })
			require.NoError(t, m.Err())
			return err
		})
		require.ErrorIs(t, err, errOwn)
		require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
	})
}

// A queue with one slot, as sync.Cond's users write it.
func TestSyncLockerServesACond(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		const items = 50
		m := kit.NewSession(t, at).Mutex("lock")
		cond := sync.NewCond(relock.SyncLocker(m))
		var slot, sum int
		require.NoError(t, kit.Together(2, func(i int) error {
			for n := range items {
				cond.L.Lock()
				for i == 0 && slot != 0 || i == 1 && slot == 0 {
					cond.Wait()
				}
				if i == 0 {
					slot = n + 1
				} else {
					sum += slot
					slot = 0
				}
				cond.L.Unlock()
				cond.Broadcast()
			}
			return nil
		}))
		require.Equal(t, items*(items+1)/2, sum)
		require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
	})
}

func TestSyncLockerPanicsWhereSyncWould(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m := s.Mutex("lock")
		l := relock.SyncLocker(m)
		panics := func(f func(), what string) {
			t.Helper()
			defer func() {
				t.Helper()
				text, ok := recover().(string)
				require.True(t, ok, "a panic with a text")
				require.Contains(t, text, "relock: ")
				require.Contains(t, text, what)
			}()
			f()
		}
		panics(l.Unlock, "not held")
		l.Lock()
		require.NotPanics(t, l.Unlock)
		panics(l.Unlock, "not held")
		l.Lock()
		forceUnlock(t, s, m)
		require.NotPanics(t, l.Unlock, "a loss is no misuse")
		panics(l.Unlock, "not held")
		panics(relock.SyncLocker(s.Mutex("")).Lock, "name")
		panics(relock.SyncLocker(new(relock.Mutex)).Lock, "zero value")
		panics(relock.SyncLocker(new(relock.Mutex)).Unlock, "zero value")
		require.NoError(t, s.Close(kit.Background))
		panics(l.Lock, "closed")
	})
}

// A Lock that waits when the session closes panics as well.
func TestSyncLockerPanicsWhenTheSessionCloses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, held := kit.NewSession(t, server), kit.NewSession(t, server).Mutex("lock")
	kit.Lock(t, kit.Background, held)
	panicked := kit.Async(func() (text string) {
		defer func() { text, _ = recover().(string) }()
		relock.SyncLocker(s.Mutex("lock")).Lock()
		return ""
	})
	kit.Awaited(t, kit.NewClient(t, server), "lock")
	require.NoError(t, s.Close(kit.Background))
	require.Contains(t, kit.Receive(t, panicked, "the waiter to panic"), "closed")
}
