package locks_test

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
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

// The acquire is under way when the caller leaves, and is executed after that, of a
// lock that is free or held.
func TestCallCancelledInFlightLeavesNothing(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		for name, ending := range endings {
			for call, do := range callings {
				t.Run(call+" "+name, func(t *testing.T) {
					t.Parallel()
					server := redistest.Start(t)
					proxy, direct := redistest.NewProxy(t, server.Addr()), kit.NewClient(t, server)
					s, other := kit.NewSession(t, proxy), kit.NewSession(t, server) // with leases of 30 s
					m, held := k.Of(s), k.Holder(other)
					kit.Lock(t, kit.Background, m)
					kit.Unlock(t, kit.Background, m)
					for i := range 4 {
						if i%2 == 1 {
							kit.Lock(t, kit.Background, held)
						}
						sent := seen(proxy, k.Sha)
						proxy.Stall(true)
						ctx, end := ending.with()
						result := kit.Async(func() error { return do(ctx, m) })
						kit.Receive(t, sent, "the acquire to be sent")
						end()
						wantStopped(t, kit.Receive(t, result, "the call to return while Redis does not answer"), ending.err)
						require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
						proxy.Stall(false)
						if i%2 == 1 {
							kit.Unlock(t, kit.Background, held)
						}
						nothingLeft(t, direct)
						kit.Lock(t, kit.Background, m)
						kit.Unlock(t, kit.Background, m)
					}
				})
			}
		}
	})
}

// seen returns a channel that is closed when a request with all these words in it
// comes by a proxy.
func seen(proxy *redistest.Proxy, words ...string) <-chan struct{} {
	c := make(chan struct{})
	var once sync.Once
	proxy.DropReplies(func(request []byte) bool {
		for _, w := range words {
			if !bytes.Contains(request, []byte(w)) {
				return false
			}
		}
		once.Do(func() { close(c) })
		return false // the reply is not to be dropped
	})
	return c
}

// rueidis closes the connection that everybody shares when a context's deadline
// passes on its fast path; relock must not let it.
func TestADeadlineDoesNotCloseTheSharedConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := kit.NewSession(t, proxy)
	kit.WarmUp(t, s)
	before := connections(t, server)
	proxy.Delay(100 * time.Millisecond)
	for _, do := range callings {
		for range 3 {
			ctx, cancel := context.WithTimeout(kit.Background, 50*time.Millisecond)
			require.ErrorIs(t, do(ctx, s.Mutex("lock")), context.DeadlineExceeded)
			cancel()
		}
	}
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := s.Inspect(ctx, "lock"); return err },
		func(ctx context.Context) error { _, err := s.ForceUnlock(ctx, "lock"); return err },
	} {
		ctx, cancel := context.WithTimeout(kit.Background, 50*time.Millisecond)
		require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
		cancel()
	}
	proxy.Delay(0)
	m := s.Mutex("lock")
	kit.Lock(t, kit.Background, m)
	kit.Unlock(t, kit.Background, m)
	after := connections(t, server)
	for id := range before {
		require.Contains(t, after, id, "a connection was closed")
	}
}

var clientID = regexp.MustCompile(`(?m)^id=(\d+) .* cmd=(\S+)`)

// connections returns the clients' connections for commands, by their ids.
func connections(t testing.TB, server *redistest.Server) map[string]string {
	t.Helper()
	list, err := server.Do("CLIENT", "LIST", "TYPE", "NORMAL")
	require.NoError(t, err)
	ids := make(map[string]string)
	for _, found := range clientID.FindAllStringSubmatch(list.(string), -1) {
		if found[2] != "client|list" && found[2] != "client" { // the second before Redis 7.0
			ids[found[1]] = found[2]
		}
	}
	return ids
}
