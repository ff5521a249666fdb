package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestCloseReturnsWithItsContextDuringAnOutage(t *testing.T) {
	const lease = time.Second
	kit.EachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		session := kit.NewSession(t, p, relock.WithLease(lease))
		held, asked := session.Mutex("held"), session.Mutex("asked")
		kit.Lock(t, kit.Background, held)
		done := held.Done()
		begin()
		waiting := kit.Async(func() error { return asked.Lock(kit.Background) })
		ctx, cancel := context.WithTimeout(kit.Background, 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, session.Close(ctx), context.DeadlineExceeded)
		kit.Receive(t, done, "the hold to be lost")
		require.ErrorIs(t, held.Err(), relock.ErrLost)
		require.ErrorIs(t, kit.Receive(t, waiting, "the waiting call"), relock.ErrClosed)
		unlockIsLost(t, held)
		heal()
		_ = finish(t, session) // an error if that took longer than the lease
		freed(t, s, "held")
		freed(t, s, "asked")
		redistest.Eventually(t, kit.Soon, "the subscription to end", func() bool { return s.PubSubClients() == 0 })
	})
}

// A release that fails because its connection has just been lost is tried again, by
// Close as by Unlock. It was not, and the lock stayed taken for a lease.
func TestCloseReleasesOverALostConnection(t *testing.T) {
	t.Parallel()
	s, p := kit.Proxied(t)
	for i := range 4 {
		session := kit.NewSession(t, p) // lease 30 s
		goesOn(t, session.Mutex("it"))
		kit.Lock(t, kit.Background, session.Mutex("it"))
		if i%2 == 0 {
			p.Cut()
		} else {
			kit.DropReplyOf(p, kit.ReleaseSHA)
		}
		require.NoError(t, finish(t, session))
		freed(t, s, "it")
	}
}

// finish waits until a session has closed, and returns what it could not do.
func finish(t testing.TB, session *relock.Session) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(kit.Background, kit.Soon)
	defer cancel()
	err := session.Close(ctx)
	require.NoError(t, ctx.Err(), "Close after Redis is back")
	return err
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
		reply, err := node.Do("KEYS", "lock *")
		require.NoError(t, err)
		require.Empty(t, reply)
	}
	require.NoError(t, frozen.Thaw())
}
