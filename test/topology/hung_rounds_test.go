package topology_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What is due together on two nodes does not wait for the one that hangs: the renewal of
// the other counts before that of the first has failed.
func TestRenewalCountsWhileAnotherNodeHangs(t *testing.T) {
	t.Parallel()
	const lease, each = 6 * time.Second, 2
	c := startUncovered(t)
	hung, well := c.Nodes()[0], c.Nodes()[1]
	var seen renewalLog
	s := kit.SessionOn(t, c.Client(t), relock.WithLease(lease), relock.WithObserver(&seen))
	names := append(namesOn(c, hung, "hung", each), namesOn(c, well, "well", each)...)
	var held []relock.Locker // at the same time
	for _, name := range names {
		m := s.Mutex(name)
		kit.Lock(t, kit.Background, m)
		held = append(held, m)
	}
	held = held[each:]
	require.NoError(t, hung.Freeze())
	defer func() { require.NoError(t, hung.Thaw()) }()
	seen.mu.Lock()
	seen.events = nil
	seen.mu.Unlock()

	failed := -1
	redistest.Eventually(t, lease+kit.Soon, "a renewal to fail", func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for i, e := range seen.events {
			if e.Err != nil {
				failed = i
				return true
			}
		}
		return false
	})
	renewed := 0
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for _, e := range seen.events[:failed] {
		renewed += e.Holds
	}
	require.GreaterOrEqual(t, renewed, len(held), "holds renewed before the round of the node that hangs has ended")
	for _, l := range held {
		require.NoError(t, l.Err())
	}
}

// What the winner of a FairMutex is given at first is shorter than a round of renewals
// may take: it must not wait for that of another node.
func TestGrantIsRenewedWhileAnotherNodeHangs(t *testing.T) {
	t.Parallel()
	const lease = 18 * time.Second // the first renewal is due after 6 s, and takes 6 s if the node hangs
	c := startUncovered(t)
	hung, well := c.Nodes()[0], c.Nodes()[1]
	var losses lossCount
	session := func() *relock.Session {
		return kit.SessionOn(t, c.Client(t), relock.WithLease(lease), relock.WithObserver(&losses))
	}
	s, other := session(), session()
	holdsOn(t, c, hung, s, 2, 0)
	began := time.Now()
	names := namesOn(c, well, "granted", 8)
	for _, name := range names {
		kit.Lock(t, kit.Background, other.FairMutex(name))
	}
	time.Sleep(lease/3 - time.Second)
	require.NoError(t, hung.Freeze())
	for i, name := range names { // granted one after the other while the round is under way
		m := s.FairMutex(name)
		got := kit.Async(func() error { return m.Lock(kit.Background) })
		redistest.Eventually(t, kit.Soon, "the waiter to queue", func() bool {
			state, err := other.Inspect(kit.Background, name)
			return err == nil && state.Waiters == 1
		})
		time.Sleep(time.Until(began.Add(lease/3 - 500*time.Millisecond + time.Duration(i)*250*time.Millisecond)))
		_, err := other.ForceUnlock(kit.Background, name)
		require.NoError(t, err)
		require.NoError(t, kit.Receive(t, got, "the grant"))
	}
	losses.lostNames() // those that were forced open
	time.Sleep(7 * time.Second)
	lost := losses.lostNames()
	require.NoError(t, hung.Thaw())
	require.Empty(t, lost)
}

// A session can be started, used and closed while a node hangs: any other node answers
// what it wants to know.
func TestSessionStartsWhileANodeHangs(t *testing.T) {
	t.Parallel()
	const sessions = 8
	c := startUncovered(t)
	clients := make([]rueidis.Client, sessions)
	for i := range clients {
		clients[i] = c.Client(t)
	}
	names := namesOn(c, c.Nodes()[1], "lock", sessions)
	require.NoError(t, c.Nodes()[0].Freeze())
	defer func() { require.NoError(t, c.Nodes()[0].Thaw()) }()
	require.NoError(t, kit.Together(sessions, func(i int) error {
		ctx, cancel := kit.ContextFor(kit.Soon)
		defer cancel()
		start := time.Now()
		s, err := relock.NewSession(ctx, clients[i])
		if err != nil {
			return err
		}
		t.Logf("started after %v", time.Since(start))
		m := s.Mutex(names[i])
		return errors.Join(m.Lock(ctx), m.Unlock(ctx), s.Close(ctx))
	}))
}
