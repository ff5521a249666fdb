package topology_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// renewalLog keeps what observers are told of renewals.
type renewalLog struct {
	relock.NopObserver
	mu     sync.Mutex
	events []relock.RenewEvent
}

func (r *renewalLog) Renewed(e relock.RenewEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// since returns how many rounds there have been since the first n, and of how many holds.
func (r *renewalLog) since(t testing.TB, n int) (rounds, holds int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events[n:] {
		require.NoError(t, e.Err)
		holds += e.Holds
	}
	return len(r.events) - n, holds
}

// effort is what renewals have cost the nodes of a cluster.
type effort struct{ scripts, reads int64 }

func effortOf(t testing.TB, c *redistest.Cluster) (sum effort) {
	t.Helper()
	for _, n := range c.Nodes() {
		sum.scripts += n.CommandStats()["evalsha"]
		reads, err := strconv.ParseInt(n.Info("stats")["total_reads_processed"], 10, 64)
		require.NoError(t, err)
		sum.reads += reads
	}
	return sum
}

// Ten thousand holds in a cluster take one script for each hundred of a slot, and as many more as there
// are groups that are due together: at most five in an interval. What
// is due together goes to each node in one pipeline: a node reads many scripts at once.
func TestManyHoldsInAClusterAreRenewedInBatches(t *testing.T) {
	t.Parallel()
	const holds, batch, perSlot, lease = 10_000, 100, 5, 6 * time.Second
	c := redistest.StartCluster(t, 3, 0)
	for _, spread := range []struct {
		what  string
		name  func(i int) string
		pause time.Duration // so that not all are due together
	}{
		{"25 slots", func(i int) string { return fmt.Sprintf("{tag %d}%d", i%25, i) }, lease / 20},
		{"all slots", func(i int) string { return fmt.Sprint("lock ", i) }, 0},
	} {
		slots := make(map[uint16]int)
		for i := range holds {
			slots[redistest.Slot(spread.name(i))]++
		}
		least := 0
		for _, n := range slots {
			least += (n + batch - 1) / batch
		}

		var seen renewalLog
		s := kit.SessionOn(t, c.Client(t), relock.WithLease(lease), relock.WithObserver(&seen))
		require.NoError(t, kit.Together(16, func(g int) error {
			for i := g; i < holds; i += 16 {
				if i/16%125 == 0 {
					time.Sleep(spread.pause)
				}
				if err := s.Mutex(spread.name(i)).Lock(kit.Background); err != nil {
					return err
				}
			}
			return nil
		}))
		var took effort
		var pieces, renewed int
		period := func() bool {
			n, _ := seen.since(t, 0)
			before := effortOf(t, c)
			redistest.Eventually(t, lease+kit.Soon, "all to be renewed", func() bool {
				_, renewed = seen.since(t, n)
				return renewed >= holds
			})
			after := effortOf(t, c)
			pieces, _ = seen.since(t, n)
			took = effort{after.scripts - before.scripts, after.reads - before.reads}
			return spread.pause == 0 || took.scripts*holds <= int64((least+perSlot*len(slots))*renewed)
		}
		redistest.Eventually(t, 10*lease+kit.Soon, "the batches to fill", period)
		t.Logf("%s: %d scripts (at least %d) for %d holds in %d rounds and %d reads", spread.what, took.scripts, least, renewed, pieces, took.reads)
		if took.scripts > 1000 {
			require.Less(t, took.reads, took.scripts/10)
		}
		require.NoError(t, s.Close(kit.Background))
	}
}
