package redistest_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestSlotIsWhatRedisSays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--cluster-enabled", "yes")
	for _, key := range []string{"", "a", "123456789", "{tag}x", "x{tag}y{other}", "{}x", "x{", "x}{y", "{{a}}", "ключ"} {
		got, err := s.Do("CLUSTER", "KEYSLOT", key)
		require.NoError(t, err)
		require.Equal(t, got, int64(redistest.Slot(key)), key)
	}
}

func TestClusterMovesASlotUnderItsClients(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	require.Len(t, c.Masters(), 3)
	client := c.Client(t)
	const keys = 250 // more than one batch
	key := func(i int) string { return fmt.Sprintf("{moving}%d", i) }
	for i := range keys {
		set(t, client, key(i), "0")
	}
	slot := redistest.Slot("moving")
	from := c.NodeForSlot(slot)
	require.Same(t, from, c.NodeForKey("{moving}"))
	to := c.Nodes()[0]
	if from == to {
		to = c.Nodes()[1]
	}

	// One writer goes through the keys over and over while they move.
	var stop atomic.Bool
	var writes int
	var wg sync.WaitGroup
	wg.Go(func() {
		for ; !stop.Load(); writes++ {
			if err := do(t, client, "INCR", key(writes%keys)).Error(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	m, err := c.BeginMigration(slot, to)
	require.NoError(t, err)
	require.NoError(t, m.Move(key(0)))
	require.ErrorContains(t, do(t, client, "MGET", key(0), key(1)).Error(), "TRYAGAIN")
	require.NoError(t, m.Finish())
	require.NoError(t, c.MigrateSlot(slot, to), "moving a slot to where it is")
	require.Same(t, to, c.NodeForSlot(slot))
	require.NoError(t, c.MigrateSlot(slot, from))
	stop.Store(true)
	wg.Wait()

	sum := int64(0)
	for i := range keys {
		n, err := do(t, client, "GET", key(i)).AsInt64()
		require.NoError(t, err)
		sum += n
	}
	require.Equal(t, int64(writes), sum, "no write lost, none done twice")
	require.Positive(t, writes)
}
