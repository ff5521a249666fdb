package locks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// endings are the ways in which a context ends: by its owner, or by itself.
var endings = map[string]struct {
	with func() (ctx context.Context, end context.CancelFunc)
	err  error
}{
	"cancelled": {func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(kit.Background)
		return ctx, func() { cancel(kit.ErrStop) }
	}, context.Canceled},
	"timed out": {func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithTimeoutCause(kit.Background, 100*time.Millisecond, kit.ErrStop)
		_ = cancel // the time comes
		return ctx, func() {}
	}, context.DeadlineExceeded},
}

// callings are the calls that take a lock.
var callings = map[string]func(ctx context.Context, m relock.Locker) error{
	"Lock": func(ctx context.Context, m relock.Locker) error { return m.Lock(ctx) },
	"TryLock": func(ctx context.Context, m relock.Locker) error {
		ok, err := m.TryLock(ctx)
		if ok || err == nil {
			err = errors.Join(err, errors.New("no error, or the lock with one"))
		}
		return err
	},
}

// wantStopped checks the error of a call whose context has ended.
func wantStopped(t testing.TB, got, err error) {
	t.Helper()
	require.ErrorIs(t, got, err)
	require.ErrorIs(t, got, kit.ErrStop, "the cause")
	require.True(t, strings.HasPrefix(got.Error(), "relock: "), got.Error())
}

func TestNothingIsSentUnderAnEndedContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	kit.WarmUp(t, s)
	for _, k := range kinds {
		for name, ending := range endings {
			for call, do := range callings {
				m := k.on(s, "lock")
				ctx, end := ending.with()
				end()
				<-ctx.Done()
				cost := trafficOf(server, func() { wantStopped(t, do(ctx, m), ending.err) })
				require.Zero(t, cost, "%s, %s, %s", k.name, call, name)
				require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
			}
		}
	}
}

// rueidis closes the connection that everybody shares when a context's deadline
// passes on its fast path; relock must not let it.
func TestADeadlineDoesNotCloseTheSharedConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := kit.NewSession(t, proxy)
	kit.WarmUp(t, s)
	before := proxy.Accepted()
	proxy.Delay(100 * time.Millisecond)
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return callings["Lock"](ctx, s.Mutex("lock")) },
		func(ctx context.Context) error { return callings["TryLock"](ctx, s.Mutex("lock")) },
		func(ctx context.Context) error { _, err := s.Inspect(ctx, "lock"); return err },
		func(ctx context.Context) error { _, err := s.ForceUnlock(ctx, "lock"); return err },
	} {
		for range 3 {
			ctx, cancel := context.WithTimeout(kit.Background, 50*time.Millisecond)
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
			cancel()
		}
	}
	proxy.Delay(0)
	m := s.Mutex("lock")
	kit.Lock(t, kit.Background, m)
	kit.Unlock(t, kit.Background, m)
	require.Equal(t, before, proxy.Accepted(), "a connection was closed, and made again")
}
