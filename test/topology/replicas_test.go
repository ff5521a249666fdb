package topology_test

import (
	"context"
	"errors"
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
		vain := parties(t, d, relock.WithReplicas(n, 700*time.Millisecond))()

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
			require.ErrorIs(t, err, relock.ErrReplicas, p.kinds)
			require.ErrorContains(t, err, "replicas have acknowledged", p.kinds)
			err = l.Lock(kit.Background)
			require.ErrorIs(t, err, relock.ErrReplicas, p.kinds)
			require.ErrorContains(t, err, "replicas have acknowledged", p.kinds)
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
	refused := kit.SessionOn(t, kit.NewClient(t, primary, as("app", "secret")), relock.WithReplicas(1, time.Second))
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

// A waiter is granted the lock by a release, while the replica hangs: the grant does not count.
func TestGrantWithoutItsReplicasIsUndone(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	client := kit.NewClient(t, primary)
	holder := kit.NewSession(t, primary)
	waits := kit.NewSession(t, primary, relock.WithReplicas(1, 300*time.Millisecond))
	for _, k := range kit.LockKinds {
		l := k.Of(waits)
		kit.Lock(t, kit.Background, l) // the scripts are known
		kit.Unlock(t, kit.Background, l)
		held := k.Holder(holder)
		kit.Lock(t, kit.Background, held)
		got := kit.Async(func() error { return l.Lock(kit.Background) })
		kit.Waits(t, waits, "lock")
		require.NoError(t, replicas[0].Freeze())
		kit.Unlock(t, kit.Background, held)
		require.ErrorIs(t, kit.Receive(t, got, k.Name+", which waits"), relock.ErrReplicas)
		require.NoError(t, replicas[0].Thaw())
		kit.GoneQuickly(t, client, "lock")
	}
}

// WithWait bounds all that comes before the hold. Here that is the wait for a replica that hangs.
func TestWaitOfALockBoundsThatForReplicas(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	client := kit.NewClient(t, primary)
	s := kit.NewSession(t, primary, relock.WithReplicas(1, time.Hour))
	for _, k := range kit.LockKinds { // also, so that the scripts are known: else it would wait for the write of none
		l := k.Of(s)
		kit.Lock(t, kit.Background, l)
		kit.Unlock(t, kit.Background, l)
	}
	require.NoError(t, replicas[0].Freeze())
	for _, k := range kit.LockKinds {
		l := k.Of(s, relock.WithWait(300*time.Millisecond))
		err := kit.Receive(t, kit.Async(func() error { return l.Lock(kit.Background) }), "Lock with a bound")
		require.ErrorIs(t, err, context.DeadlineExceeded, k.Name)
		kit.GoneQuickly(t, client, "lock")
	}
	require.NoError(t, replicas[0].Thaw())
}

// On a replica every Lock would fail, so a session on it is refused, unless it accepts writes. One that has lost
// its primary may be promoted: the session begins when it is, and not before, unless ctx ends.
func TestSessionWaitsForThePromotionOfAReplica(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	replica := replicas[0]
	require.Contains(t, refusal(t, replicated{replica}), "relock: NewSession: ")
	require.Contains(t, refusal(t, replicated{replica}), "read-only replica")
	admin(t, replica, "CONFIG", "SET", "replica-read-only", "no")
	kit.Lock(t, kit.Background, kit.NewSession(t, replica).Mutex("another"))
	admin(t, replica, "CONFIG", "SET", "replica-read-only", "yes")

	primary.Kill()
	redistest.Eventually(t, kit.Soon, "the replica to miss its primary", func() bool {
		return replica.Info("replication")["master_link_status"] == "down"
	})
	ctx, cancel := kit.ContextFor(100 * time.Millisecond)
	defer cancel()
	_, err := relock.NewSession(ctx, kit.NewClient(t, replica))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "read-only replica")

	client := kit.NewClient(t, replica)
	began := kit.Async(func() error { return lockOnce(client) })
	time.Sleep(300 * time.Millisecond) // it asks again and again
	require.Empty(t, began, "it began on a replica")
	admin(t, replica, "REPLICAOF", "NO", "ONE")
	require.NoError(t, kit.Receive(t, began, "the session"))
}

// lockOnce begins a session, takes a lock, and closes the session.
func lockOnce(client rueidis.Client) error {
	s, err := relock.NewSession(kit.Background, client)
	if err != nil {
		return err
	}
	return errors.Join(s.Mutex("lock").Lock(kit.Background), s.Close(kit.Background))
}

// Whoever waits for more replicas than there are waits in vain: that is refused with both numbers.
func TestMoreReplicasThanThereAreAreRefused(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.StartReplicas(t, 1)
	for _, d := range []deployment{replicated{primary}, redistest.StartCluster(t, 3, 1)} {
		text := refusal(t, d, relock.WithReplicas(2, 5*time.Second))
		require.Contains(t, text, "relock: NewSession: WithReplicas(2, 5s): 1 of 2 replicas")
		kit.Lock(t, kit.Background, kit.SessionOn(t, d.Client(t), relock.WithReplicas(1, kit.Soon)).Mutex("lock"))
	}
}

// Through Sentinel a client may still be connected to what was the primary. The session begins when
// the client follows the sentinels to the new one.
func TestASessionThroughSentinelWaitsForTheFailover(t *testing.T) {
	t.Parallel()
	d := redistest.StartSentinel(t)
	client, was := d.Client(t), d.Primary()
	require.NotNil(t, was)
	demote(t, was, redistest.Start(t))
	began := kit.Async(func() error { return lockOnce(client) })
	redistest.Eventually(t, 5*kit.Soon, "the session to begin", func() bool { return len(began) == 1 })
	require.NoError(t, <-began)
	require.NotEqual(t, was.Addr(), d.Primary().Addr())
}

// A replica passes messages on, and the primary that has published them does not count
// who hears them there. Regression: after a failover the new primary found nobody
// listening for a grant, and gave the lock to the next; but the first waiter, whose
// connection still led to the old primary, heard of its grant and had the lock, too.
func TestWaiterOnAReplicaIsNotGrantedAnothersLock(t *testing.T) {
	t.Parallel()
	old, replicas := redistest.StartReplicas(t, 1)
	next := replicas[0]
	// One that may not ask for the role does not notice that it is on a replica.
	admin(t, old, "ACL", "SETUSER", "waiter", "on", ">secret", "~*", "&*", "+@all", "-role")
	waiter := kit.SessionOn(t, kit.NewClient(t, old, as("waiter", "secret")))
	held, waiting := kit.NewSession(t, old).FairMutex("lock"), waiter.FairMutex("lock")
	kit.Lock(t, kit.Background, held)
	got := kit.Async(func() error { return waiting.Lock(kit.Background) })
	redistest.Eventually(t, kit.Soon, "the waiter to queue", func() bool {
		n, err := next.Do("ZCARD", "relock_queue:{lock}")
		return err == nil && n == int64(1)
	})
	admin(t, next, "REPLICAOF", "NO", "ONE")
	demote(t, old, next)

	heard := make(chan struct{})
	listener, put := kit.NewClient(t, old).Dedicate()
	t.Cleanup(put)
	listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) { close(heard) }})
	require.NoError(t, listener.Do(kit.Background, listener.B().Subscribe().Channel("after").Build()).Error())

	other := kit.NewSession(t, next)
	was, err := other.ForceUnlock(kit.Background, "lock")
	require.NoError(t, err)
	require.True(t, was)
	require.True(t, kit.TryLock(t, kit.Background, other.FairMutex("lock")))
	admin(t, next, "PUBLISH", "after", "")
	kit.Receive(t, heard, "a message to come through the replica")
	time.Sleep(50 * time.Millisecond)
	require.Empty(t, got, "two have the lock")
	require.NoError(t, waiter.Close(kit.Background))
	require.Error(t, kit.Receive(t, got, "the waiter to leave"))
}

// rueidis sent UNSUBSCRIBE after each acquisition that had waited for replicas in a cluster. A server
// that is busy refuses it, and then rueidis panics: the process ended.
func TestABusyNodeDoesNotEndTheProcessThatWaitsForReplicas(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1, "--lua-time-limit", "10")
	m := kit.SessionOn(t, c.Client(t), relock.WithReplicas(1, kit.Soon)).Mutex("lock")
	kit.Lock(t, kit.Background, m)
	kit.Unlock(t, kit.Background, m)
	free := redistest.KeepBusy(t, c.NodeForKey(m.Name()))
	ctx, cancel := kit.ContextFor(time.Second)
	defer cancel()
	require.ErrorContains(t, m.Lock(ctx), "BUSY")
	free()
	kit.Lock(t, kit.Background, m)
	kit.Unlock(t, kit.Background, m)
}
