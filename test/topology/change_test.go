package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// failoverLease is longer than any failover here takes, also if the Sentinels agree only in their second election, 6 s
// after the first; and a third of it is short enough to wait for a renewal.
const failoverLease = 20 * time.Second

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
		t.Logf("%s: over after %v", c.what, took)
		stand(t, long)
		slowest := handOver(t, short)
		tr.goesOn(t)
		t.Logf("slowest to enter then %v, all go round again after %v", slowest, time.Since(start))
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

// One master hangs for several leases. Those who hold locks of the other two keep them, and those who want locks
// there have turns; also where calls of the same sessions wait for the master that hangs.
func TestHungNodeCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	const lease, each = 6 * time.Second, 5
	c := redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	hung, well := c.Nodes()[0], c.Nodes()[1:]
	var losses lossCount
	join := parties(t, c, relock.WithLease(lease), relock.WithObserver(&losses))
	a, b := join(), join()
	here := pairings[:8] // the groups of all kinds are of several nodes, as are Redlocks
	held := make(map[*redistest.Server][]relock.Locker)
	throngs := make(map[*redistest.Server]*throng)
	for _, node := range c.Nodes() {
		for _, p := range here {
			for i := range each {
				l := p.holds(a, nameOn(c, node, fmt.Sprint("held ", i, p.kinds)))
				kit.Lock(t, kit.Background, l)
				held[node] = append(held[node], l)
				time.Sleep(lease / 120) // so that they are due apart
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
	var clients []rueidis.Client // of sessions that are started, used and closed meanwhile
	for range 8 {
		clients = append(clients, c.Client(t))
	}
	require.NoError(t, hung.Freeze())
	require.NoError(t, kit.Together(len(clients), func(i int) error {
		ctx, cancel := kit.ContextFor(kit.Soon)
		defer cancel()
		s, err := relock.NewSession(ctx, clients[i])
		if err != nil {
			return err
		}
		m := s.Mutex(nameOn(c, well[0], fmt.Sprint("lock ", i)))
		return errors.Join(m.Lock(ctx), m.Unlock(ctx), s.Close(ctx))
	}))
	for began := time.Now(); time.Since(began) < kit.Stress(t, 2*lease); {
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

// elsewhere returns a master that does not have the slot of a key.
func elsewhere(t testing.TB, c *redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	from := c.NodeForKey(key)
	for _, m := range c.Masters() {
		if m != from {
			return m
		}
	}
	t.Fatal("there is no other master")
	return nil
}

// While a slot is half moved no node runs a script for keys of which it has some and not others. A
// move that stops between any two keys of a lock lets nobody in beside the holder, also if that
// unlocks meanwhile, and the lock is free once the slot is whole, or its lease has ended.
func TestMoveThatStopsBetweenAnyTwoKeys(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	join := parties(t, c, relock.WithLease(4*time.Second))
	a, b, third := join(), join(), join()
	var moves sync.Mutex              // begin and finish one after the other
	all := pairings[:len(pairings)-1] // a Redlock has its majority elsewhere
	require.NoError(t, kit.Together(len(all), func(i int) error {
		for moved := 0; ; moved++ {
			of, err := stopAfter(c, &moves, all[i], a, b, third, moved)
			if err != nil {
				return fmt.Errorf("%s, %d of %d keys moved: %w", all[i].kinds, moved, of, err)
			}
			if moved == of {
				return nil
			}
		}
	}))
}

// stopAfter stops the move of a slot when so many keys of a lock are moved, while a party holds it
// and another waits, has a third one try, has the holder unlock, and goes on. It returns how many
// keys there are.
func stopAfter(
	c *redistest.Cluster, moves *sync.Mutex, p pairing, a, b, third party, moved int,
) (of int, err error) {
	ctx, cancel := kit.ContextFor(kit.Soon)
	defer cancel()
	name := fmt.Sprint("half moved ", p.kinds, " ", moved)
	held, waiting := p.holds(a, name), p.waits(b, name)
	if err := held.Lock(ctx); err != nil {
		return 0, err
	}
	var inside atomic.Int64
	inside.Add(1)
	got := kit.Async(func() error {
		if err := waiting.Lock(ctx); err != nil {
			return err
		}
		if inside.Add(1) != 1 {
			return errors.New("the waiter enters beside the holder")
		}
		return nil
	})
	for !peek.Waits(b[0], name) && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	slot := redistest.Slot(name)
	from := c.NodeForSlot(slot)
	masters := c.Masters()
	to := masters[(slices.Index(masters, from)+1)%len(masters)]
	moves.Lock()
	move, err := c.BeginMigration(slot, to)
	moves.Unlock()
	if err != nil {
		return 0, err
	}
	reply, err := from.Do("CLUSTER", "GETKEYSINSLOT", fmt.Sprint(slot), "100")
	if err != nil {
		return 0, err
	}
	var keys []string
	for _, key := range reply.([]any) {
		keys = append(keys, key.(string))
	}
	slices.Sort(keys)
	if moved = min(moved, len(keys)); moved > 0 {
		err = move.Move(keys[:moved]...)
	}
	if err != nil {
		return len(keys), err
	}
	ok, _ := p.waits(third, name).TryLock(ctx) // it may find that the slot is moving
	if ok {
		return len(keys), errors.New("TryLock enters beside the holder")
	}
	inside.Add(-1)
	_ = held.Unlock(ctx) // in the background, if nobody answers
	moves.Lock()
	err = move.Finish()
	moves.Unlock()
	if err != nil {
		return len(keys), err
	}
	if err := <-got; err != nil {
		return len(keys), err
	}
	return len(keys), waiting.Unlock(ctx)
}
