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

// What a process that stood still past the deadline of its hold may do before its
// watchdog has looked at the clock.

const standstill = time.Minute // longer than any lease here

func skip(ss []*relock.Session) {
	for _, s := range ss {
		peek.Engine(s).Clock.Skip(standstill)
	}
}

// Regression: Lock by the owner returned nil, for a hold that another process may have
// had since. It is lost, and its loss told, by whoever looks at it first.
func TestNoLockIsEnteredAgainAfterItsDeadline(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		told := new(losses)
		ss, plain := k.sessions(t, relock.WithObserver(told)), k.sessions(t)
		var want int64
		for _, ss := range [][]*relock.Session{ss, plain} {
			for _, o := range [][]relock.LockOption{nil, {relock.WithFixedLease(standstill)}} {
				for _, enter := range []func(context.Context, relock.Locker) error{
					func(ctx context.Context, l relock.Locker) error { return l.Lock(ctx) },
					func(ctx context.Context, l relock.Locker) error { _, err := l.TryLock(ctx); return err },
					func(ctx context.Context, l relock.Locker) error { return relock.Do(ctx, l, context.Cause) },
				} {
					l, ctx := k.of(ss, "lock", o...), ss[0].NewContext(kit.Background)
					kit.Lock(t, ctx, l)
					kit.Lock(t, ctx, l)
					done := l.Done()
					skip(ss)
					for range 2 {
						require.ErrorIs(t, enter(ctx, l), relock.ErrLost, "until it is unlocked as often as locked")
						require.True(t, kit.IsClosed(done), "the loss is told")
						require.ErrorIs(t, l.Unlock(ctx), relock.ErrLost)
					}
					want++
				}
			}
		}
		redistest.Eventually(t, kit.Soon, "each loss to be told once", func() bool { return told.n.Load() == want/2 })
	})
}

// A call that waits is handed the lock, and goes on only when the hold has run out.
func TestNoLockIsHandedOverAfterItsDeadline(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		told := new(losses)
		ss := k.sessions(t, relock.WithTenure(time.Hour), relock.WithObserver(told))
		holder, next := k.of(ss, "lock"), k.of(ss, "lock")
		kit.Warm(t, holder)
		kit.Lock(t, kit.Background, holder)
		held, handed := kit.HoldersOf(t, ss[0], "lock"), false
		ctx := &waitHook{Context: kit.Background, f: func() {
			handed = true
			kit.Unlock(t, kit.Background, holder)
			require.Equal(t, held, kit.HoldersOf(t, ss[0], "lock"), "not handed over")
			skip(ss)
		}}
		require.NoError(t, next.Lock(ctx))
		require.True(t, handed)
		require.NoError(t, next.Err(), "what it got in the end is not what ran out")
		require.Zero(t, told.n.Load(), "nobody was told of what was handed over")
		kit.Unlock(t, kit.Background, next)
		require.ErrorIs(t, next.Unlock(kit.Background), relock.ErrNotHeld)
	}, func(k *kind) bool { return k.name == "Mutex" || k.name == "writer" || k.name == "Redlock" })
}

// And a reader that is let in with another one.
func TestNoReaderIsLetInAfterItsDeadline(t *testing.T) {
	t.Parallel()
	told, server := new(losses), redistest.Start(t)
	s := kit.NewSession(t, server, relock.WithObserver(told))
	writer, one, two := s.RWMutex("lock"), s.RWMutex("lock").RLocker(), s.RWMutex("lock").RLocker()
	kit.Lock(t, kit.Background, writer)
	got := kit.Async(func() error { return one.Lock(kit.Background) })
	waiting(t, s, "lock", 1)
	ctx := &waitHook{Context: kit.Background, f: func() {
		kit.Unlock(t, kit.Background, writer)
		require.NoError(t, kit.Receive(t, got, "the first reader"))
		peek.Engine(s).Clock.Skip(standstill)
	}}
	require.NoError(t, two.Lock(ctx))
	require.NoError(t, two.Err())
	require.EqualValues(t, 1, told.n.Load(), "of the first, for nobody was told of the second")
	require.ErrorIs(t, one.Unlock(kit.Background), relock.ErrLost)
	kit.Unlock(t, kit.Background, two)
	require.ErrorIs(t, two.Unlock(kit.Background), relock.ErrNotHeld)
	mustBeQuiet(t, kit.NewClient(t, server), "lock", s)
}
