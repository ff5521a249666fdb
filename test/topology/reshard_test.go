package topology_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
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
	renewedAnew(t, all, lease, 1)
	t.Logf("slowest to enter then %v", handOver(t, all))
	th.end(t)
	losses.none(t)
}

// A slot may be half moved for longer than a lease lasts. Then no node runs a script
// for keys of which it has some and not others, such as that for a batch of renewals.
func TestHoldsOfAHalfMovedSlotAreRenewed(t *testing.T) {
	t.Parallel()
	const lease, mutexes = 3 * time.Second, 150
	c := redistest.StartCluster(t, 3, 0)
	var losses lossCount
	s := kit.SessionOn(t, c.Client(t), relock.WithLease(lease), relock.WithObserver(&losses))
	var held []relock.Locker
	var move []string
	for i := range mutexes {
		m := s.Mutex(fmt.Sprint("{half}", i))
		held = append(held, m)
		if i%3 == 0 {
			move = append(move, m.Name())
		}
	}
	fair, written, read := s.FairMutex("{half}fair"), s.RWMutex("{half}written"), s.RWMutex("{half}read")
	held = append(held, fair, written, read.RLocker())
	for _, l := range held {
		kit.Lock(t, kit.Background, l)
	}
	move = append(move, fair.Name(), written.Name())
	m, err := c.BeginMigration(redistest.Slot("{half}"), elsewhere(t, c, "{half}"))
	require.NoError(t, err)
	require.NoError(t, m.Move(move...))

	end := time.Now().Add(2 * lease)
	redistest.Eventually(t, 2*lease+kit.Soon, "the holds to outlive their leases", func() bool {
		for i, l := range held {
			require.NoError(t, l.Err(), "hold %d", i)
		}
		return time.Now().After(end)
	})
	require.NoError(t, m.Finish())
	for _, l := range held {
		kit.Unlock(t, kit.Background, l)
	}
	losses.none(t)
}

// Slots go to and fro under a throng. A grant that nobody hears of would block its lock until the claim
// lapses: no lock expires.
func TestNoClaimLapsesWhileSlotsGoToAndFro(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, "--notify-keyspace-events", "Ex")
	var mu sync.Mutex
	expired := map[string]int{}
	for _, s := range c.Masters() {
		conn, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprint(conn, "SUBSCRIBE __keyevent@0__:expired\r\n")
		require.NoError(t, err)
		go func() { // ends with the connection
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				mu.Lock()
				expired[lines.Text()]++
				mu.Unlock()
			}
		}()
	}
	redistest.Eventually(t, kit.Soon, "the subscriptions", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return expired["__keyevent@0__:expired"] == len(c.Masters())
	})
	th := startThrong(t, c)
	for range 5 {
		for _, g := range th.guarded {
			require.NoError(t, c.MigrateSlot(redistest.Slot(g.name), elsewhere(t, c, g.name)))
		}
		th.goesOn(t)
	}
	th.end(t)
	mu.Lock()
	defer mu.Unlock()
	for _, g := range th.guarded {
		require.Zero(t, expired[g.name], g.name)
	}
}
