package topology_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// failoverLease is longer than any failover here takes, and a third of it is short
// enough to wait for a renewal.
const failoverLease = 12 * time.Second

// change is something that puts another server in charge.
type change struct {
	what string
	do   func(t *testing.T)
	// what the sessions of the traffic need for exclusion meanwhile
	opts []relock.SessionOption
}

// survive checks that locks of every kind go on through changes of a deployment: holds
// stay, and those that wait get in after the unlock, although the one who has held and
// the one who waits have met the change half-way; and that nobody is let in beside
// somebody else, whose holds are short and met by the change at any point.
func survive(t *testing.T, d deployment, settled func(t *testing.T), changes ...change) {
	t.Helper()
	var losses lossCount
	join := parties(t, d, relock.WithLease(failoverLease), relock.WithObserver(&losses))
	a, b := join(), join()
	long := duels(t, a, b, "long")
	for _, c := range changes {
		short := duels(t, a, b, c.what)
		tr := startThrong(t, d, c.opts...)
		tr.goesOn(t)
		settled(t)
		start := time.Now()
		c.do(t)
		took := time.Since(start)
		stand(t, long)
		slowest := handOver(t, short)
		tr.goesOn(t)
		t.Logf("%s: over after %v, slowest to enter then %v, all go round again after %v", c.what, took, slowest, time.Since(start))
		tr.end(t)
	}
	renewed(t, long, failoverLease)
	handOver(t, long)
	losses.none(t)
}

func TestLocksGoOnThroughFailoversOfSentinel(t *testing.T) {
	t.Parallel()
	d := redistest.StartSentinel(t)
	all := []relock.SessionOption{relock.WithReplicas(2, time.Second)}
	survive(t, d, func(t *testing.T) { inStep(t, d.Primary(), 2) },
		change{"SENTINEL FAILOVER", func(t *testing.T) {
			_, err := d.Failover()
			require.NoError(t, err)
		}, all},
		change{"SIGKILL", func(t *testing.T) {
			old := d.Primary()
			old.Kill()
			_, err := d.WaitFailover(old)
			require.NoError(t, err)
			require.NoError(t, old.Restart())
		}, all},
	)
}

func TestLocksGoOnThroughFailoversOfACluster(t *testing.T) {
	t.Parallel()
	d := redistest.StartCluster(t, 3, 1)
	settled := func(t *testing.T) {
		for _, m := range d.Masters() {
			inStep(t, m, 1)
		}
	}
	survive(t, d, settled,
		change{"CLUSTER FAILOVER", func(t *testing.T) { // which loses nothing
			for _, m := range d.Masters() {
				require.NoError(t, d.Failover(d.Replica(m)))
			}
		}, nil},
		change{"SIGKILL", func(t *testing.T) {
			for _, m := range d.Masters() {
				m.Kill()
				require.NoError(t, d.WaitFailover(m))
				require.NoError(t, m.Restart())
			}
			require.NoError(t, d.Settle())
		}, []relock.SessionOption{relock.WithReplicas(1, time.Second)}},
	)
}
