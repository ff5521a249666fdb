package topology_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// with is a deployment whose clients are set up in a certain way.
type with struct {
	deployment
	mod func(*rueidis.ClientOption)
}

func (w with) Client(t testing.TB, mod ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	return w.deployment.Client(t, append(mod, w.mod)...)
}

func TestLocksOfEveryKindWorkWithTLS(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.TLS)
	ca := redistest.NewAuthority(t)
	server, addr := redistest.StartTLS(t, ca)
	join := parties(t, with{replicated{server}, func(o *rueidis.ClientOption) {
		o.InitAddress, o.TLSConfig = []string{addr}, ca.Client()
	}})
	handOver(t, duels(t, join(), join(), "encrypted"))
}

// Each database has locks of its own, but messages go to all: those of another one end and grant nothing.
func TestDatabasesDoNotShareLocks(t *testing.T) {
	t.Parallel()
	zero := replicated{redistest.Start(t)}
	three := with{zero, func(o *rueidis.ClientOption) { o.SelectDB = 3 }}
	var losses lossCount
	join0, join3 := parties(t, zero), parties(t, three, relock.WithObserver(&losses))
	a0, b0, a3, b3 := join0(), join0(), join3(), join3()
	in0, in3 := duels(t, a0, b0, "the same"), duels(t, a3, b3, "the same")
	for _, d := range in0 {
		if d.kinds == "Redlock" {
			continue // has a majority elsewhere
		}
		was, err := b0[0].ForceUnlock(kit.Background, d.name)
		require.NoError(t, err)
		require.True(t, was, d.name)
		kit.Receive(t, d.held.Done(), d.name+" to be lost")
		require.ErrorIs(t, d.held.Unlock(kit.Background), relock.ErrLost, d.name) // of a group, the other members
		require.NoError(t, kit.Receive(t, d.got, "the waiter to get in"))
	}
	handOver(t, in3)
	losses.none(t)
}

// In a cluster labels are in other slots than the locks.
func TestInspectFindsLabelsInOtherSlots(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	other := kit.SessionOn(t, c.Client(t))
	client := c.Client(t)
	for range 20 {
		s := kit.SessionOn(t, client, relock.WithLabel("worker"))
		for _, name := range []string{"a", "b", "c", "d"} {
			kit.Lock(t, kit.Background, s.RWMutex(name).RLocker())
			st, err := other.Inspect(kit.Background, name)
			require.NoError(t, err)
			for _, h := range st.Holders {
				require.Equal(t, "worker", h.Label)
			}
		}
	}
}
