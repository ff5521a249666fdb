package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// closeMost is how much longer than its context Close may take.
const closeMost = 350 * time.Millisecond

// Close returned when its context ended, but went on in the background: for 5 s or more its
// goroutines were left, and could touch a client that was closed.
func TestCloseEndsWithItsContextAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for state, begin := range map[string]func(*network){
		"healthy": func(*network) {}, "hangs": (*network).hang, "dies": (*network).die,
		"hangs, then dies": func(n *network) { n.hang(); time.Sleep(20 * time.Second); n.die() },
		"hangs for long":   func(n *network) { n.hang(); time.Sleep(20 * time.Second) },
	} {
		for holds, bound := range map[int]time.Duration{0: time.Second, 1: 0, 9: time.Second, 1200: time.Second} {
			t.Run(fmt.Sprint(state, ", ", holds, " holds"), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T) { closeIn(t, begin, holds, bound, state == "healthy") })
			})
		}
	}
}

func closeIn(t *testing.T, begin func(*network), holds int, bound time.Duration, healthy bool) {
	n := newNetwork(t)
	s := n.session()
	var locks []relock.Locker
	for i := range holds {
		l := []relock.Locker{s.Mutex(fmt.Sprint(i)), s.FairMutex(fmt.Sprint(i)), s.RWMutex(fmt.Sprint(i)), s.RWMutex(fmt.Sprint(i)).RLocker()}[i%4]
		require.NoError(t, l.Lock(kit.Background))
		locks = append(locks, l)
	}
	waiting := make(chan error, 1)
	n.server.HSet("waited for", "7b1c5a52-5a0e-4c57-9b55-0d8f8d1a6c11:47", "1")
	go func() { waiting <- s.Mutex("waited for").Lock(kit.Background) }()
	synctest.Wait()
	begin(n)
	ctx, cancel := context.WithTimeout(kit.Background, bound)
	defer cancel()
	var err error
	require.LessOrEqual(t, took(func() { err = s.Close(ctx) }), bound+closeMost)
	if !healthy && holds > 0 {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, len(strings.Split(err.Error(), "\n")), err.Error())
	} else if healthy {
		require.NoError(t, err)
	}
	for _, l := range locks {
		require.ErrorIs(t, l.Err(), relock.ErrLost)
		require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
	}
	synctest.Wait()
	require.ErrorIs(t, <-waiting, relock.ErrClosed)
	require.Empty(t, left(t), "goroutines of relock")
	require.Zero(t, took(func() { _ = s.Close(kit.Background) }), "it is closed")
}

// An Unlock that waits for Redis while the session closes ends with Close.
func TestCloseEndsUnlocks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n := newNetwork(t)
		s := n.session()
		m := s.Mutex("lock")
		ctx, cancel := context.WithCancel(kit.Background)
		defer cancel()
		require.NoError(t, m.Lock(ctx)) // from now on requests are pipelined, and can be given up
		n.hang()
		unlocked := make(chan error, 1)
		go func() { unlocked <- m.Unlock(kit.Background) }()
		synctest.Wait()
		require.LessOrEqual(t, took(func() { require.Error(t, s.Close(kit.Cancelled())) }), closeMost)
		synctest.Wait()
		select {
		case err := <-unlocked:
			require.NoError(t, err, "it was certain when Unlock was called")
		default:
			require.Fail(t, "Unlock still waits")
		}
	})
}

// The same with real servers that stand still, where connections are those of the kernel.
func TestCloseEndsWithItsContextOnFrozenServers(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	server := redistest.Start(t)
	frozen := cluster.Masters()[0]
	s, c := kit.NewSession(t, server), kit.SessionOn(t, cluster.Client(t))
	var held []relock.Locker
	for i := range 100 {
		name := fmt.Sprint("lock ", i)
		held = append(held, s.Mutex(name), c.Mutex(name))
	}
	for _, l := range held {
		kit.Lock(t, kit.Background, l)
	}
	require.NoError(t, server.Freeze())
	require.NoError(t, frozen.Freeze())
	for _, s := range []*relock.Session{s, c} {
		watch := kit.StartWatch()
		ctx, cancel := kit.ContextFor(time.Second)
		err := s.Close(ctx)
		cancel()
		require.ErrorIs(t, err, kit.ErrStop)
		require.Less(t, watch.Took(), time.Second+kit.Slack)
	}
	require.NoError(t, server.Thaw())
	for _, node := range cluster.Masters()[1:] { // what could be released was
		reply, err := node.Do("KEYS", "lock *")
		require.NoError(t, err)
		require.Empty(t, reply)
	}
	require.NoError(t, frozen.Thaw())
}
