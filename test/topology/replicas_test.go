package topology_test

import (
	"context"
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
// hangs it is an error, and nothing is left of it, on the replica neither when that goes on; then so do the locks.
func TestLocksCountOnceReplicasHaveThem(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 2)
	d := replicated(append([]*redistest.Server{primary}, replicas...))
	client := kit.NewClient(t, primary)
	for n := 1; n <= 2; n++ {
		timely := parties(t, d, relock.WithReplicas(n, kit.Soon))
		a, b := timely(), timely()
		handOver(t, duels(t, a, b, "in time"))
		vain := parties(t, d, relock.WithReplicas(n, 300*time.Millisecond))()

		hung := replicas[:3-n]
		for _, r := range hung {
			require.NoError(t, r.Freeze())
		}
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
			redistest.Eventually(t, kit.Soon, "nothing to be left on the replica", func() bool {
				reply, err := r.Do("KEYS", "in vain*")
				all, _ := reply.([]any)
				return err == nil && len(all) == 0
			})
		}
		handOver(t, duels(t, a, b, "in time again"))
	}
}

// The acquisition went through, and then Redis refused to wait for replicas, or the caller lost interest.
// Lock reported the error and left the lock held until its lease ended, because Redis had answered.
func TestLockWithoutItsReplicasIsUndone(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	client := kit.NewClient(t, primary)
	admin(t, primary, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
	refused := kit.SessionOn(t, kit.NewClient(t, primary, as("app", "secret")), relock.WithReplicas(1, 100*time.Millisecond))
	waits := kit.NewSession(t, primary, relock.WithReplicas(1, kit.Soon))
	admin(t, primary, "ACL", "SETUSER", "app", "-wait")
	for _, k := range kit.LockKinds { // also, so that the scripts are known: else it would wait for the write of none
		l := k.Of(waits)
		kit.Lock(t, kit.Background, l)
		kit.Unlock(t, kit.Background, l)
		require.ErrorContains(t, k.Of(refused).Lock(kit.Background), "NOPERM", k.Name)
		kit.GoneQuickly(t, client, "lock")
	}
	require.NoError(t, replicas[0].Freeze())
	for _, k := range kit.LockKinds {
		ctx, cancel := context.WithCancelCause(kit.Background)
		got := kit.Async(func() error { return k.Of(waits).Lock(ctx) })
		redistest.Eventually(t, kit.Soon, "the write of "+k.Name, func() bool { return kit.Exists(t, client, "lock") })
		cancel(kit.ErrStop)
		require.ErrorIs(t, kit.Receive(t, got, "the cancelled call"), kit.ErrStop)
		kit.GoneQuickly(t, client, "lock")
	}
	require.NoError(t, replicas[0].Thaw())
}
