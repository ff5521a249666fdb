package topology_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

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

// The slots of locks that are held, waited for, and in use by a throng are moved.
func TestLocksMoveWithTheirSlots(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	c := redistest.StartCluster(t, 3, 0)
	var losses lossCount
	join := parties(t, c, relock.WithLease(lease), relock.WithObserver(&losses))
	a, b := join(), join()
	all := duels(t, a, b, "moved")
	th := startThrong(t, c)
	th.goesOn(t)

	start := time.Now()
	for _, g := range th.guarded {
		require.NoError(t, c.MigrateSlot(redistest.Slot(g.name), elsewhere(t, c, g.name)))
	}
	homes := make(map[*duel]*redistest.Server)
	for _, d := range all {
		homes[d] = elsewhere(t, c, d.name)
		require.NoError(t, c.MigrateSlot(redistest.Slot(d.name), homes[d]))
	}
	t.Logf("%d slots moved in %v", 2*len(all), time.Since(start))
	stand(t, all)
	for d, home := range homes {
		if !redistest.Has(t, redistest.ShardedPubSub) {
			break // plain messages go to every node
		}
		if strings.HasSuffix(d.name, "Redlock") {
			continue // it polls: there are no patterns of sharded channels
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

// Slots go to and fro under a throng. A grant that nobody hears of would block its lock until the claim
// lapses: no lock expires.
func TestNoClaimLapsesWhileSlotsMove(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, "--notify-keyspace-events", "Ex")
	var expired []<-chan map[string]bool // of each node
	for _, s := range c.Masters() {
		conn, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprint(conn, "SUBSCRIBE __keyevent@0__:expired end\r\n")
		require.NoError(t, err)
		expired = append(expired, kit.Async(func() map[string]bool {
			lines := bufio.NewScanner(conn)
			all := make(map[string]bool)
			for lines.Scan() && lines.Text() != "that is all" {
				all[lines.Text()] = true
			}
			return all
		}))
		redistest.Eventually(t, kit.Soon, "the subscriptions", func() bool { return len(s.Channels()) == 2 })
	}
	th := startThrong(t, c)
	for range 5 {
		for _, g := range th.guarded {
			require.NoError(t, c.MigrateSlot(redistest.Slot(g.name), elsewhere(t, c, g.name)))
		}
		th.goesOn(t)
	}
	th.end(t)
	for i, s := range c.Masters() {
		admin(t, s, "PUBLISH", "end", "that is all")
		all := kit.Receive(t, expired[i], "the end of the messages")
		for _, g := range th.guarded {
			require.False(t, all[g.name], g.name)
		}
	}
}
