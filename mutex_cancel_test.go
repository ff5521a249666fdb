package relock_test

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
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

var errStop = errors.New("the caller has lost interest")

// endings are the ways in which a context ends: by its owner, or by itself.
var endings = map[string]struct {
	with func() (ctx context.Context, end context.CancelFunc)
	err  error
}{
	"cancelled": {func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(background)
		return ctx, func() { cancel(errStop) }
	}, context.Canceled},
	"timed out": {func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithTimeoutCause(background, 100*time.Millisecond, errStop)
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
	require.ErrorIs(t, got, errStop, "the cause")
	require.True(t, strings.HasPrefix(got.Error(), "relock: "), got.Error())
}

func TestNothingIsSentUnderAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	warmUp(t, s)
	for _, k := range lockKinds {
		for name, ending := range endings {
			for call, do := range callings {
				m := k.of(s)
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
func TestACallThatIsCancelledInFlightLeavesNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, k *lockKind) {
		for name, ending := range endings {
			for call, do := range callings {
				t.Run(call+" "+name, func(t *testing.T) {
					t.Parallel()
					server := redistest.Start(t)
					proxy, direct := redistest.NewProxy(t, server.Addr()), newClient(t, server)
					s, other := newSession(t, proxy), newSession(t, server) // with leases of 30 s
					m, held := k.of(s), k.holder(other)
					lock(t, background, m)
					unlock(t, background, m)
					for i := range 4 {
						if i%2 == 1 {
							lock(t, background, held)
						}
						sent := seen(proxy, k.sha)
						proxy.Stall(true)
						ctx, end := ending.with()
						result := async(func() error { return do(ctx, m) })
						receive(t, sent, "the acquire to be sent")
						end()
						wantStopped(t, receive(t, result, "the call to return while Redis does not answer"), ending.err)
						require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
						proxy.Stall(false)
						if i%2 == 1 {
							unlock(t, background, held)
						}
						nothingLeft(t, direct)
						lock(t, background, m)
						unlock(t, background, m)
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
	s := newSession(t, proxy)
	warmUp(t, s)
	before := connections(t, server)
	proxy.Delay(100 * time.Millisecond)
	for _, do := range callings {
		for range 3 {
			ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
			require.ErrorIs(t, do(ctx, s.Mutex("lock")), context.DeadlineExceeded)
			cancel()
		}
	}
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := s.Inspect(ctx, "lock"); return err },
		func(ctx context.Context) error { _, err := s.ForceUnlock(ctx, "lock"); return err },
	} {
		ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
		require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
		cancel()
	}
	proxy.Delay(0)
	m := s.Mutex("lock")
	lock(t, background, m)
	unlock(t, background, m)
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

// Queued behind a goroutine of the same process, and behind another process.
func TestAWaiterThatIsCancelledLeavesAtOnce(t *testing.T) {
	holders := map[string]func(s, other *relock.Session) *relock.Mutex{
		"local":  func(s, other *relock.Session) *relock.Mutex { return s.Mutex("lock") },
		"remote": func(s, other *relock.Session) *relock.Mutex { return other.Mutex("lock") },
	}
	for where, holder := range holders {
		for name, ending := range endings {
			t.Run(where+" "+name, func(t *testing.T) {
				onBoth(t, func(t *testing.T, at addressed) {
					s, other, client := newSession(t, at), newSession(t, at), newClient(t, at)
					held := holder(s, other)
					lock(t, background, held)
					var stopped []<-chan error
					end := make([]context.CancelFunc, 3)
					for i := range end {
						var ctx context.Context
						ctx, end[i] = ending.with()
						stopped = append(stopped, async(func() error { return s.Mutex("lock").Lock(ctx) }))
					}
					stays := s.Mutex("lock")
					got := async(func() error { return stays.Lock(background) })
					if name == "cancelled" {
						queued(t, s, "lock", map[string]int{"local": 4, "remote": 3}[where])
					}
					for i := range end {
						end[i]()
						wantStopped(t, receive(t, stopped[i], "a waiter to leave"), ending.err)
					}
					require.NoError(t, held.Err())
					unlock(t, background, held)
					require.NoError(t, receive(t, got, "the waiter that stays to get in"))
					unlock(t, background, stays)
					goneQuickly(t, client, "lock")
				})
			})
		}
	}
}

// The one that waits for Redis on behalf of the session leaves; the next takes over.
func TestACancelledWaiterPassesItsTurnOn(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, held := newSession(t, at), newSession(t, at).Mutex("lock")
		client := newClient(t, at)
		lock(t, background, held)
		ctx, cancel := context.WithCancelCause(background)
		first := async(func() error { return s.Mutex("lock").Lock(ctx) })
		awaited(t, client, "lock")
		var locks []*relock.Mutex
		var got []<-chan error
		for i := range 3 {
			m := s.Mutex("lock")
			locks = append(locks, m)
			got = append(got, async(func() error { return m.Lock(background) }))
			queued(t, s, "lock", i+1)
		}
		cancel(errStop)
		wantStopped(t, receive(t, first, "the first to leave"), context.Canceled)
		queued(t, s, "lock", 2)
		unlock(t, background, held)
		for i := range locks {
			require.NoError(t, receive(t, got[i], "the others to get in, in turn"))
			unlock(t, background, locks[i])
		}
	})
}

// Unlock is not a wait: it releases even if its context has ended.
func TestUnlockIgnoresTheEndOfItsContext(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at), newClient(t, at)
		for _, ending := range endings {
			m := s.Mutex("lock")
			lock(t, background, m)
			ctx, end := ending.with()
			end()
			<-ctx.Done()
			unlock(t, ctx, m)
			require.False(t, exists(t, client, "lock"))
		}
	})
}
