package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// startUncovered starts a cluster of three that goes on when one of them is gone.
func startUncovered(t testing.TB) *redistest.Cluster {
	t.Helper()
	return redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
}

// nameOn returns a name of which a master has the slot.
func nameOn(c *redistest.Cluster, node *redistest.Server, prefix string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint(prefix, " ", i); c.NodeForKey(name) == node {
			return name
		}
	}
}

// One master hangs for several leases. Those who hold locks of the other two keep them, and those who want locks
// there have turns; also where calls of the same sessions wait for the master that hangs, and clean up after themselves.
func TestHungNodeCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	const lease, each = 3 * time.Second, 5
	c := startUncovered(t)
	hung, well := c.Nodes()[0], c.Nodes()[1:]
	var losses lossCount
	join := parties(t, c, relock.WithLease(lease), relock.WithObserver(&losses))
	a, b := join(), join()
	here := pairings[:7] // the groups of all kinds are of several nodes, as are Redlocks
	held := make(map[*redistest.Server][]relock.Locker)
	throngs := make(map[*redistest.Server]*throng)
	for _, node := range c.Nodes() {
		for _, p := range here {
			for i := range each {
				l := p.holds(a, nameOn(c, node, fmt.Sprint("held ", i, p.kinds)))
				kit.Lock(t, kit.Background, l)
				held[node] = append(held[node], l)
				time.Sleep(lease / 60) // so that they are due apart
			}
		}
		throngs[node] = newThrong(a, b, &losses, here, func(kinds string) string { return nameOn(c, node, "traffic "+kinds) })
	}
	goOn := func() {
		for _, node := range well {
			throngs[node].goesOn(t)
		}
	}
	goOn()
	losses.none(t)
	require.NoError(t, hung.Freeze())
	for began := time.Now(); time.Since(began) < kit.Stress(t, 10*time.Second); {
		goOn()
	}
	require.NoError(t, hung.Thaw())
	require.NoError(t, c.Settle())
	for _, node := range well {
		throngs[node].end(t)
		for _, l := range held[node] {
			require.NoError(t, l.Err())
		}
	}
	throngs[hung].stop()
	throngs[hung].wg.Wait()
	for _, l := range held[hung] {
		require.Error(t, l.Err())
	}
	losses.mu.Lock()
	defer losses.mu.Unlock()
	for _, e := range losses.losses {
		name, _, _ := strings.Cut(e.Name, ", ") // the first of a group, which are all of one slot
		require.Same(t, hung, c.NodeForKey(name), "%s was lost, of a master that is well", name)
	}
}

// A session can be started, used and closed while a node hangs: any other node answers
// what it wants to know.
func TestSessionStartsWhileANodeHangs(t *testing.T) {
	t.Parallel()
	c := startUncovered(t)
	var clients []rueidis.Client
	for range 8 {
		clients = append(clients, c.Client(t))
	}
	require.NoError(t, c.Nodes()[0].Freeze())
	defer func() { require.NoError(t, c.Nodes()[0].Thaw()) }()
	require.NoError(t, kit.Together(len(clients), func(i int) error {
		ctx, cancel := kit.ContextFor(kit.Soon)
		defer cancel()
		s, err := relock.NewSession(ctx, clients[i])
		if err != nil {
			return err
		}
		m := s.Mutex(nameOn(c, c.Nodes()[1], fmt.Sprint("lock ", i)))
		return errors.Join(m.Lock(ctx), m.Unlock(ctx), s.Close(ctx))
	}))
}
