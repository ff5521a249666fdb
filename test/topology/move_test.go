package topology_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The slots of locks that are held, waited for, and in use by a throng are moved, those of the throng to and fro.
// A grant that nobody hears of would block its lock until the claim lapses: no lock of the throng expires.
func TestLocksMoveWithTheirSlots(t *testing.T) {
	t.Parallel()
	locksMoveWithTheirSlots(t, (*redistest.Cluster).MigrateSlot)
}

// The server's own command copies a slot while the old master goes on, and hands it over at once.
func TestLocksMoveWithTheirSlotsByTheServersOwnCommand(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.OwnMoves)
	locksMoveWithTheirSlots(t, func(c *redistest.Cluster, slot uint16, to *redistest.Server) error {
		return c.MoveSlots(slot, slot, to)
	})
}

func locksMoveWithTheirSlots(
	t *testing.T, move func(c *redistest.Cluster, slot uint16, to *redistest.Server) error,
) {
	t.Helper()
	const lease = 6 * time.Second
	c := redistest.StartCluster(t, 3, 0, "--notify-keyspace-events", "Ex")
	var mu sync.Mutex
	expired := make(map[string]bool)
	for _, s := range c.Masters() {
		listener := kit.NewClient(t, s)
		ctx, cancel := context.WithCancel(kit.Background)
		defer cancel()
		expiries := listener.B().Subscribe().Channel("__keyevent@0__:expired").Build()
		go listener.Receive(ctx, expiries, func(m rueidis.PubSubMessage) {
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
			require.NoError(t, move(c, redistest.Slot(g.name), elsewhere(t, c, g.name)))
		}
		for _, d := range all {
			if round == 0 {
				homes[d] = elsewhere(t, c, d.name)
				require.NoError(t, move(c, redistest.Slot(d.name), homes[d]))
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
	mu.Lock()
	defer mu.Unlock()
	for _, g := range th.guarded {
		require.False(t, expired[g.name], g.name)
	}
}

// fill writes some 20 MB into the slot of a key, so that a move takes a moment.
func fill(t testing.TB, c *redistest.Cluster, key string) {
	t.Helper()
	const text = `for i = 1, 2000 do redis.call('set', KEYS[1] .. i, string.rep('x', 10000)) end`
	_, err := c.NodeForKey(key).Do("EVAL", text, "1", "{"+key+"}")
	require.NoError(t, err)
}

// A node is emptied, as before it is removed, and filled again, as after it is added; and a move
// that is cancelled leaves everything as it was. Meanwhile holds stay, waiters get in, and the
// locks of a throng go round.
func TestLocksGoOnWhileANodeIsEmptiedAndFilled(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.OwnMoves)
	const lease = 6 * time.Second
	c := redistest.StartCluster(t, 3, 0)
	nodes := c.Masters()
	const first, last = 0, 16384/3 - 1 // of the first node
	var losses lossCount
	join := parties(t, c, relock.WithLease(lease), relock.WithObserver(&losses))
	a, b := join(), join()
	of := pairings[:len(pairings)-1] // a Redlock is mostly elsewhere
	kinds := make(map[string]string)
	for _, p := range of {
		kinds[p.kinds] = nameOn(c, nodes[0], "traffic "+p.kinds)
	}
	long := duels(t, a, b, "long")
	tr := newThrong(a, b, &losses, of, func(kind string) string { return kinds[kind] })
	fill(t, c, kinds["Mutex"])
	tr.goesOn(t)
	for i := range 3 {
		at, next := c.NodeForSlot(first), nodes[(i+1)%len(nodes)]
		task, err := c.BeginMove(first, last, next)
		require.NoError(t, err)
		stayed, err := task.Cancel()
		require.NoError(t, err)
		t.Logf("cancelled in time: %v", stayed)
		tr.goesOn(t)
		if stayed {
			require.Same(t, at, c.NodeForSlot(first))
		}
		short := duels(t, a, b, fmt.Sprint("short ", i))
		require.NoError(t, c.MoveSlots(first, last, next))
		stand(t, long)
		t.Logf("slowest to enter then %v", handOver(t, short))
		tr.goesOn(t)
	}
	renewed(t, long, lease)
	handOver(t, long)
	tr.end(t)
	losses.none(t)
}
