package faults_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestLossIsReportedWhateverHappensToRedis(t *testing.T) {
	const lease = time.Second
	kit.EachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		a := kit.NewSession(t, p, relock.WithLease(lease)).Mutex("it")
		b := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")
		entered := make(chan struct{})
		var cause error
		var hold *relock.Hold
		result := kit.Async(func() error {
			return relock.Do(kit.Background, a, func(ctx context.Context) error {
				hold = relock.HoldOf(ctx)
				close(entered)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil
			})
		})
		kit.Receive(t, entered, "the lock")
		token := hold.Token()
		require.Positive(t, token)
		begin()
		err := kit.Receive(t, result, "Do to end while Redis is out of reach")
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorIs(t, cause, relock.ErrLost)
		require.ErrorIs(t, hold.Err(), relock.ErrLost)
		heal()

		kit.Lock(t, kit.Background, b)
		held := holderID(t, s, "it")
		require.Greater(t, b.FencingToken(), token)
		require.ErrorIs(t, a.Unlock(kit.Background), relock.ErrNotHeld)
		redistest.Eventually(t, kit.Soon, "an answer, after which what was under way has arrived", func() bool {
			ok, err := a.TryLock(kit.Background)
			require.False(t, ok)
			return err == nil
		})
		require.Equal(t, held, holderID(t, s, "it"))
		require.NoError(t, b.Err())
		kit.Unlock(t, kit.Background, b)
		goesOn(t, a, b)
		redistest.Eventually(t, kit.Soon, "no more than the shared one, the subscriptions, and one that is on its way out",
			func() bool { return p.Connections() <= 3 })
	})
}

// What Close has not released when its context ends expires with its lease.
func TestCallsAndCloseEndDuringAnOutage(t *testing.T) {
	kit.EachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		session := kit.NewSession(t, p, relock.WithLease(10*time.Second))
		held, ended, asked := session.Mutex("held"), session.Mutex("ended"), session.Mutex("asked")
		goesOn(t, asked)
		kit.Lock(t, kit.Background, held)
		kit.Lock(t, kit.Background, ended)
		done := held.Done()
		begin()
		ctx, cancel := context.WithTimeout(kit.Background, 300*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, asked.Lock(ctx), context.DeadlineExceeded)
		ok, err := asked.TryLock(ctx)
		require.False(t, ok)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, ended.Unlock(kit.Background), "the hold was certain when Unlock was called")
		require.ErrorIs(t, ended.Err(), relock.ErrNotHeld)

		waiting := kit.Async(func() error { return asked.Lock(kit.Background) })
		require.ErrorIs(t, session.Close(ctx), context.DeadlineExceeded)
		kit.Receive(t, done, "the hold to be lost")
		require.ErrorIs(t, held.Err(), relock.ErrLost)
		require.ErrorIs(t, kit.Receive(t, waiting, "the waiting call"), relock.ErrClosed)
		require.ErrorIs(t, held.Unlock(kit.Background), relock.ErrLost)
		heal()
		ctx, cancel = kit.ContextFor(kit.Soon)
		defer cancel()
		_ = session.Close(ctx) // an error if that took longer than the lease
		require.NoError(t, ctx.Err(), "Close after Redis is back")
		freed(t, s, "held", "ended", "asked")
		redistest.Eventually(t, kit.Soon, "the subscription to end", func() bool { return s.PubSubClients() == 0 })
	})
}

// A release that fails because its connection has just been lost is tried again, by
// Close as by Unlock. It was not, and the lock stayed taken for a lease.
func TestCloseReleasesOverALostConnection(t *testing.T) {
	t.Parallel()
	s, p := kit.Proxied(t)
	for _, lose := range []func(){p.Cut, func() { kit.DropReplyOf(p, kit.ReleaseSHA) }} {
		session := kit.NewSession(t, p) // lease 30 s
		goesOn(t, session.Mutex("it"))
		kit.Lock(t, kit.Background, session.Mutex("it"))
		lose()
		ctx, cancel := kit.ContextFor(kit.Soon)
		defer cancel()
		require.NoError(t, session.Close(ctx))
		freed(t, s, "it")
	}
}

// The connections of a node that stands still are those of the kernel: what is on them cannot be
// cancelled. What the other nodes have is released.
func TestCloseEndsWithItsContextOnFrozenNodes(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	frozen := cluster.Masters()[0]
	s := kit.SessionOn(t, cluster.Client(t))
	for i := range 100 {
		kit.Lock(t, kit.Background, s.Mutex(fmt.Sprint("lock ", i)))
	}
	require.NoError(t, frozen.Freeze())
	ctx, cancel := kit.ContextFor(time.Second)
	defer cancel()
	require.ErrorIs(t, s.Close(ctx), kit.ErrStop)
	for _, node := range cluster.Masters()[1:] {
		require.Empty(t, do(t, node, "KEYS", "lock *"))
	}
	require.NoError(t, frozen.Thaw())
}

// The client dials with the context of the call that was first, and gives the error of that context to everybody
// who waits for the connection. Those calls failed, with the end of a context that was not theirs.
func TestEndOfAnotherCallsContextIsNoError(t *testing.T) {
	t.Parallel()
	s, p := kit.Proxied(t)
	gate := make(chan struct{}, 1) // has a token while the client can dial
	gate <- struct{}{}
	var waiting atomic.Int32 // dials
	client := kit.NewClient(t, p, func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, addr string, n *net.Dialer, _ *tls.Config) (net.Conn, error) {
			waiting.Add(1)
			defer waiting.Add(-1)
			select {
			case <-gate:
				gate <- struct{}{}
				return n.DialContext(ctx, "tcp", addr)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
	session := kit.SessionOn(t, client)
	held, wanted := session.Mutex("held"), session.Mutex("wanted")
	goesOn(t, held, wanted)
	kit.Lock(t, kit.Background, held)

	<-gate
	p.Cut()
	ctx, cancel := context.WithCancel(kit.Background)
	redistest.Eventually(t, kit.Soon, "the subscription to dial", func() bool { return waiting.Load() == 1 })
	first := kit.Async(func() error { // of the application, perhaps on the connection that was cut
		for ctx.Err() == nil {
			_ = client.Do(ctx, client.B().Incr().Key("n").Build())
		}
		return ctx.Err()
	})
	redistest.Eventually(t, kit.Soon, "the first call to dial", func() bool { return waiting.Load() == 2 })
	unlocked := kit.Async(func() error { return held.Unlock(kit.Background) })
	locked := kit.Async(func() error { return wanted.Lock(kit.Background) })
	time.Sleep(50 * time.Millisecond) // they wait for the first one's connection
	cancel()
	require.ErrorIs(t, kit.Receive(t, first, "the application's call"), context.Canceled)
	time.Sleep(50 * time.Millisecond)
	require.Empty(t, unlocked, "Unlock has not reached Redis")
	require.Empty(t, locked, "Lock has not reached Redis")
	gate <- struct{}{}
	require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
	require.NoError(t, kit.Receive(t, locked, "Lock"))
	freed(t, s, "held")
	kit.Unlock(t, kit.Background, wanted)
}

// More calls than the client's queue has places for, on a Redis that hangs: each ends
// with its own context, Unlock with the lease, and afterwards nothing of them is left.
// A call that found the queue full waited for Redis, whatever its context said.
func TestCrowdOfCallsEndsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	const crowd, patience, lease = 3000, 500 * time.Millisecond, 2 * time.Second
	s := redistest.Start(t)
	session, client := kit.NewSession(t, s), kit.NewClient(t, s)
	short := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("short")
	fixed := session.Mutex("fixed", relock.WithFixedLease(lease))
	goesOn(t, session.Mutex("0"), short, fixed)
	kit.Lock(t, kit.Background, short)
	kit.Lock(t, kit.Background, fixed)
	require.NoError(t, s.Freeze())
	done := short.Done()
	unlocked := kit.Async(func() error { return fixed.Unlock(kit.Background) })
	require.NoError(t, kit.Together(crowd, func(i int) error {
		ctx, cancel := context.WithTimeout(kit.Background, patience)
		defer cancel()
		if err := session.Mutex(fmt.Sprint(i)).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("call %d: %w", i, err)
		}
		return nil
	}))
	kit.Receive(t, done, "the loss")
	require.ErrorIs(t, short.Unlock(kit.Background), relock.ErrLost)
	require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
	require.NoError(t, s.Thaw())
	redistest.Eventually(t, kit.Quickly, "everything to be released", func() bool { return len(kit.Keys(t, client)) == 0 })
	goesOn(t, session.Mutex("0"), session.Mutex("1"), short, fixed)
}

// While a script of somebody else keeps the server busy it answers BUSY to everything.
func TestBusyServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--lua-time-limit", "20")
	session := kit.NewSession(t, s)
	wanted, ended := session.Mutex("wanted"), session.Mutex("ended")
	kit.Lock(t, kit.Background, ended)
	free := redistest.KeepBusy(t, s)
	redistest.Eventually(t, kit.Soon, "Lock to say why", func() bool {
		ctx, cancel := kit.ContextFor(500 * time.Millisecond)
		defer cancel()
		err := wanted.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return strings.Contains(err.Error(), "BUSY")
	})
	locked := kit.Async(func() error { return wanted.Lock(kit.Background) })
	unlocked := kit.Async(func() error { return ended.Unlock(kit.Background) })
	time.Sleep(500 * time.Millisecond) // they try again and again
	require.Empty(t, locked)
	require.Empty(t, unlocked)
	free()
	require.NoError(t, kit.Receive(t, locked, "Lock"))
	require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
	kit.Unlock(t, kit.Background, wanted)
	freed(t, s, "ended")
}

// A server that is out of memory takes nothing new in, and says so at once; what is held is still renewed and released.
func TestHoldsSurviveWhereMemoryIsFull(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	s := redistest.Start(t)
	session := kit.NewSession(t, s, relock.WithLease(lease))
	held, wanted := session.Mutex("held"), session.Mutex("wanted")
	goesOn(t, wanted)
	kit.Lock(t, kit.Background, held)
	do(t, s, "CONFIG", "SET", "maxmemory", "1")
	require.ErrorContains(t, wanted.Lock(kit.Background), "OOM")
	ok, err := wanted.TryLock(kit.Background)
	require.False(t, ok)
	require.ErrorContains(t, err, "OOM")
	time.Sleep(2 * lease) // several renewals
	require.NoError(t, held.Err())
	kit.Unlock(t, kit.Background, held)
	require.Empty(t, append(holders(t, s, "held"), holders(t, s, "wanted")...), "nor does a failed acquire leave anything")
	do(t, s, "CONFIG", "SET", "maxmemory", "0")
	goesOn(t, held, wanted)
}
