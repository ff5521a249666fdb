package topology_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// elsewhere returns a master that does not have the slot of a key.
func elsewhere(t testing.TB, c *redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	from := c.NodeForKey(key)
	for _, m := range c.Masters() {
		if m != from {
			return m
		}
	}
	t.Fatal("there is no other master")
	return nil
}

// The slots of locks that are held, waited for, and in use by a throng are moved, those of the throng to and fro. A grant
// that nobody hears of would block its lock until the claim lapses: no lock of the throng expires.
func TestLocksMoveWithTheirSlots(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	c := redistest.StartCluster(t, 3, 0, "--notify-keyspace-events", "Ex")
	var mu sync.Mutex
	expired := make(map[string]bool)
	for _, s := range c.Masters() {
		listener := kit.NewClient(t, s)
		ctx, cancel := context.WithCancel(kit.Background)
		defer cancel()
		go listener.Receive(ctx, listener.B().Subscribe().Channel("__keyevent@0__:expired").Build(), func(m rueidis.PubSubMessage) {
			mu.Lock()
			defer mu.Unlock()
			expired[m.Message] = true
		})
		redistest.Eventually(t, kit.Soon, "the subscription", func() bool { return len(s.Channels()) == 1 })
	}
	var losses lossCount
	join := parties(t, c, relock.WithLease(lease), relock.WithObserver(&losses))
	a, b := join(), join()
	all := duels(t, a, b, "moved")
	th := startThrong(t, c)
	homes := make(map[*duel]*redistest.Server)
	for round := range 5 {
		th.goesOn(t)
		for _, g := range th.guarded {
			require.NoError(t, c.MigrateSlot(redistest.Slot(g.name), elsewhere(t, c, g.name)))
		}
		for _, d := range all {
			if round == 0 {
				homes[d] = elsewhere(t, c, d.name)
				require.NoError(t, c.MigrateSlot(redistest.Slot(d.name), homes[d]))
			}
		}
	}
	stand(t, all)
	for d, home := range homes {
		if !redistest.Has(t, redistest.ShardedPubSub) || d.kinds == "Redlock" {
			continue // plain messages go to every node; a Redlock polls, as there are no patterns of sharded channels
		}
		redistest.Eventually(t, kit.Soon, "the subscription to follow "+d.name, func() bool {
			return slices.ContainsFunc(home.Channels(), func(channel string) bool {
				return strings.Contains(channel, "{"+d.name+"}")
			})
		})
	}
	th.goesOn(t)
	renewed(t, all, lease)
	t.Logf("slowest to enter then %v", handOver(t, all))
	th.end(t)
	losses.none(t)
	for _, g := range th.guarded {
		require.False(t, expired[g.name], g.name)
	}
}

// While a slot is half moved no node runs a script for keys of which it has some and not others. A lock that is
// unlocked meanwhile is free once the slot is whole, or its lease has ended.
func TestHalfMovedLockIsFreeInTheEnd(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	join := parties(t, c, relock.WithLease(4*time.Second))
	a, b := join(), join()
	for _, p := range pairings[:len(pairings)-1] { // a Redlock has its majority elsewhere
		name := "half moved " + p.kinds
		held, waiting := p.holds(a, name), p.waits(b, name)
		kit.Lock(t, kit.Background, held)
		got := kit.Async(func() error { return waiting.Lock(kit.Background) })
		redistest.Eventually(t, kit.Soon, "somebody to wait for "+name, func() bool { return peek.Engine(b[0]).Waits(name) })
		m, err := c.BeginMigration(redistest.Slot(name), elsewhere(t, c, name))
		require.NoError(t, err)
		require.NoError(t, m.Move(name))
		_ = held.Unlock(kit.Background)
		require.NoError(t, m.Finish())
		require.NoError(t, kit.Receive(t, got, name+": the waiter to enter"))
		kit.Unlock(t, kit.Background, waiting)
	}
}
