package topology_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// replicated is a primary, and its replicas after it.
type replicated []*redistest.Server

func (r replicated) Nodes() []*redistest.Server { return r }

func (r replicated) Client(t testing.TB, mod ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	return r[0].Client(t, mod...)
}

// An acquisition of any kind counts once so many replicas have it. When one of them
// hangs it is an error, and nothing is left of it; when it goes on, so do the locks.
func TestLocksOfEveryKindCountOnceReplicasHaveThem(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 2)
	d := replicated(append([]*redistest.Server{primary}, replicas...))
	client := kit.NewClient(t, primary)
	for n := 1; n <= 2; n++ {
		timely := parties(t, d, relock.WithReplicas(n, kit.Soon))
		a, b := timely(), timely()
		handOver(t, duels(t, a, b, "in time"))

		hung := replicas[:3-n]
		for _, r := range hung {
			require.NoError(t, r.Freeze())
		}
		vain := parties(t, d, relock.WithReplicas(n, 20*time.Millisecond))()
		for _, p := range pairings {
			if p.kinds == "Redlock" {
				continue // goes by its majority
			}
			l := p.holds(vain, "in vain")
			ok, err := l.TryLock(kit.Background)
			require.False(t, ok, p.kinds)
			require.ErrorContains(t, err, "replicas have acknowledged", p.kinds)
			require.ErrorContains(t, l.Lock(kit.Background), "replicas have acknowledged", p.kinds)
			require.ErrorIs(t, l.Err(), relock.ErrNotHeld, p.kinds)
			redistest.Eventually(t, kit.Quickly, "nothing to be left of "+p.kinds, func() bool { return len(kit.Keys(t, client)) == 0 })
		}
		for _, r := range hung {
			require.NoError(t, r.Thaw())
		}
		handOver(t, duels(t, a, b, "in time again"))
	}
}
