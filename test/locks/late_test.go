package locks_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/stretchr/testify/require"
)

// What a process that stood still past the deadline of its hold may do before its
// watchdog has looked at the clock.

const standstill = time.Minute // longer than any lease here

func skip(ss []*relock.Session) {
	for _, s := range ss {
		peek.Session(s).Clock.Skip(standstill)
	}
}

// Regression: Lock by the owner returned nil, for a hold that another process may have
// had since. It is lost, and its loss told, by whoever looks at it first.
func TestNoLockIsEnteredAgainAfterItsDeadline(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		ss := k.sessions(t)
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
			}
		}
	})
}

// waitHook is a context that calls f when a call first waits under it.
type waitHook struct {
	context.Context
	f    func()
	once sync.Once
}

func (c *waitHook) Done() <-chan struct{} {
	c.once.Do(c.f)
	return c.Context.Done()
}

// A call that waits is handed the lock, and goes on only when the hold has run out.
func TestNoLockIsHandedOverAfterItsDeadline(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		ss := k.sessions(t, relock.WithTenure(time.Hour))
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
		kit.Unlock(t, kit.Background, next)
		require.ErrorIs(t, next.Unlock(kit.Background), relock.ErrNotHeld)
	}, func(k *kind) bool { return k.name == "Mutex" || k.name == "writer" || k.name == "Redlock" })
}
