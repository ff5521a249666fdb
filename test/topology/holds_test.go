package topology_test

import (
	"fmt"

	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// renewedHolds counts the holds that were renewed.
type renewedHolds struct {
	relock.NopObserver
	count atomic.Int64
}

func (r *renewedHolds) Renewed(e relock.RenewEvent) { r.count.Add(int64(e.Holds)) }

// Ten thousand holds of 25 slots of a cluster take one script for each hundred of a slot, and as many more as
// there are groups that are due together: at most five in an interval.
func TestManyHoldsInAClusterAreRenewedInBatches(t *testing.T) {
	t.Parallel()
	const holds, slots, batch, perSlot, lease = 10_000, 25, 100, 5, 6 * time.Second
	c := redistest.StartCluster(t, 3, 0)
	var seen renewedHolds
	s := kit.SessionOn(t, c.Client(t), relock.WithLease(lease), relock.WithObserver(&seen))
	require.NoError(t, kit.Together(16, func(g int) error {
		for i := g; i < holds; i += 16 {
			if i/16%125 == 0 {
				time.Sleep(lease / 20) // so that not all are due together
			}
			if err := s.Mutex(fmt.Sprintf("{tag %d}%d", i%slots, i)).Lock(kit.Background); err != nil {
				return err
			}
		}
		return nil
	}))
	scripts := func() (n int64) {
		for _, node := range c.Nodes() {
			n += node.CommandStats()["evalsha"]
		}
		return n
	}
	redistest.Eventually(t, 10*lease+kit.Soon, "the batches to fill", func() bool {
		before, from := scripts(), seen.count.Load()
		redistest.Eventually(t, lease+kit.Soon, "all to be renewed", func() bool { return seen.count.Load() >= from+holds })
		took, renewed := scripts()-before, seen.count.Load()-from
		t.Logf("%d scripts for %d holds", took, renewed)
		return took*holds <= (holds/batch+perSlot*slots)*renewed
	})
}
