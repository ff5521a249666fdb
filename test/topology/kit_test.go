package topology_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What the tests of topologies share: the table of the kinds of lock, and what any
// deployment of Redis can do.

// deployment is Redis in one of its topologies.
type deployment interface {
	Client(t testing.TB, mod ...func(*rueidis.ClientOption)) rueidis.Client
	Nodes() []*redistest.Server
}

// party is a session on the deployment that a test is about, and for Redlocks one on
// each of two more servers, to which nothing happens.
type party []*relock.Session

// parties returns a constructor of parties.
func parties(t testing.TB, d deployment, opts ...relock.SessionOption) func() party {
	t.Helper()
	more := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	return func() party {
		return party{kit.SessionOn(t, d.Client(t), opts...), kit.NewSession(t, more[0]), kit.NewSession(t, more[1])}
	}
}

// pairing is two sides of locks that exclude each other.
type pairing struct {
	kinds  string
	holds  func(p party, name string) relock.Locker
	waits  func(p party, name string) relock.Locker
	shared bool // the side that holds does not exclude itself
}

// pairings are all kinds of lock, each against itself, and the sides that can exclude
// one of another kind. Something of the given name is part of each in Redis.
var pairings = []pairing{
	alike("Mutex", mutexOf),
	alike("FairMutex", fairOf),
	{"FairMutex and Mutex", fairOf, mutexOf, false},
	alike("writer", writerOf),
	{"reader and writer", readerOf, writerOf, true},
	{"writer and reader", writerOf, readerOf, false},
	alike("Semaphore", func(p party, name string) relock.Locker { return p[0].Semaphore(name, 1) }),
	alike("Group of one slot", func(p party, name string) relock.Locker {
		other := nameWhere(name, func(other string) bool { return redistest.Slot(other) == redistest.Slot(name) })
		return relock.NewGroup(mutexOf(p, name), mutexOf(p, other))
	}),
	alike("Group of all kinds", func(p party, name string) relock.Locker {
		reader, writer := readerOf(p, name+" read"), writerOf(p, name+" written")
		return relock.NewGroup(mutexOf(p, name), fairOf(p, name+" fair"), writer, reader)
	}),
	alike("Redlock", func(p party, name string) relock.Locker { return relock.NewRedlock(p, name) }),
}

func alike(kinds string, f func(party, string) relock.Locker) pairing {
	return pairing{kinds, f, f, false}
}

func mutexOf(p party, name string) relock.Locker  { return p[0].Mutex(name) }
func fairOf(p party, name string) relock.Locker   { return p[0].FairMutex(name) }
func writerOf(p party, name string) relock.Locker { return p[0].RWMutex(name) }
func readerOf(p party, name string) relock.Locker { return p[0].RWMutex(name).RLocker() }

// nameWhere returns a name with a prefix for which something is true.
func nameWhere(prefix string, is func(name string) bool) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint(prefix, " ", i); is(name) {
			return name
		}
	}
}

// nameOn returns a name of which a master has the slot.
func nameOn(c *redistest.Cluster, node *redistest.Server, prefix string) string {
	return nameWhere(prefix, func(name string) bool { return c.NodeForKey(name) == node })
}

// duel is one session that holds a lock while another one waits for it.
type duel struct {
	pairing
	name          string
	two           *relock.Session
	held, waiting relock.Locker
	got           <-chan error
}

// duels has a hold one lock of each pairing while b waits for it.
func duels(t testing.TB, a, b party, prefix string) (all []*duel) {
	t.Helper()
	for _, p := range pairings {
		name := prefix + " " + p.kinds
		d := &duel{pairing: p, name: name, two: b[0], held: p.holds(a, name), waiting: p.waits(b, name)}
		kit.Lock(t, kit.Background, d.held)
		d.got = kit.Async(func() error { return d.waiting.Lock(kit.Background) })
		all = append(all, d)
	}
	for _, d := range all {
		if d.kinds != "Redlock" { // which waits nowhere: it asks again
			kit.Waits(t, d.two, d.name)
		}
	}
	return all
}

// fencingToken returns the token of a lock's hold; of kinds that have none, 0.
func fencingToken(l relock.Locker) int64 {
	if f, ok := l.(interface{ FencingToken() int64 }); ok {
		return f.FencingToken()
	}
	return 0
}

// stand checks that the holds go on and the waits are in vain.
func stand(t testing.TB, all []*duel) {
	t.Helper()
	for _, d := range all {
		require.NoError(t, d.held.Err(), d.name)
		require.False(t, kit.IsClosed(d.held.Done()), d.name)
		require.Empty(t, d.got, "a second one has entered %s", d.name)
	}
}

// handOver ends the holds, and checks that those who wait get in then, soon and with
// higher tokens. It returns how long the slowest took from the Unlock on.
func handOver(t testing.TB, all []*duel) (slowest time.Duration) {
	t.Helper()
	stand(t, all)
	for _, d := range all {
		before := fencingToken(d.held)
		start := time.Now()
		require.NoError(t, d.held.Unlock(kit.Background), d.name)
		select {
		case err := <-d.got:
			require.NoError(t, err, d.name)
		case <-time.After(2 * kit.Quickly):
			t.Fatalf("%s: nobody has entered %v after the unlock", d.name, 2*kit.Quickly)
		}
		slowest = max(slowest, time.Since(start))
		if after := fencingToken(d.waiting); before > 0 && after > 0 {
			require.Greater(t, after, before, d.name)
		}
		require.NoError(t, d.waiting.Unlock(kit.Background), d.name)
	}
	return slowest
}

// renewed waits until each hold has been renewed from now on, by what Redis says of its time to live.
func renewed(t testing.TB, all []*duel, lease time.Duration) {
	t.Helper()
	for _, d := range all {
		last := lease
		redistest.Eventually(t, lease+kit.Soon, "a renewal of "+d.name, func() bool {
			ctx, cancel := kit.ContextFor(kit.Soon)
			defer cancel()
			state, err := d.two.Inspect(ctx, d.name)
			if err != nil {
				return false // as long as nobody is in charge
			}
			before := last
			last = state.TTL
			return state.TTL > before
		})
	}
}

// lossCount collects losses.
type lossCount struct {
	relock.NopObserver
	mu     sync.Mutex
	losses []relock.LostEvent
}

func (o *lossCount) Lost(e relock.LostEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.losses = append(o.losses, e)
}

// none checks that nothing was lost.
func (o *lossCount) none(t testing.TB) {
	t.Helper()
	require.Zero(t, o.expired(t), "leases ran out")
}

// expired returns how many leases ran out, and checks that nothing else was lost, such
// as a hold that somebody has ended, or that a new primary did not know.
func (o *lossCount) expired(t testing.TB) (n int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.losses {
		if !strings.Contains(e.Cause.Error(), "lease ran out") {
			t.Errorf("%s was lost: %v", e.Name, e.Cause)
		}
	}
	return len(o.losses)
}

// inStep waits until the replicas of a primary have what it has now.
func inStep(t testing.TB, primary *redistest.Server, replicas int64) {
	t.Helper()
	conn, put := primary.Client(t).Dedicate()
	defer put()
	require.NoError(t, conn.Do(kit.Background, conn.B().Ping().Build()).Error()) // WAIT is for what was before it
	wait := conn.B().Wait().Numreplicas(replicas).Timeout(kit.Soon.Milliseconds()).Build()
	n, err := conn.Do(kit.Background, wait).AsInt64()
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, replicas, "replicas in step")
}

func TestMain(m *testing.M) { kit.MainOfAll(m) }

// throng is sessions that contend for a lock of each pairing all the time. What the
// locks guard is in this process, so no failover takes it back.
type throng struct {
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
	lost    *lossCount
	guarded []*guarded
	short   atomic.Int64 // acquisitions that too few replicas had
	failed  context.Context
	fail    context.CancelCauseFunc // with what was wrong
}

// guarded is a number that a lock guards.
type guarded struct {
	name   string
	number atomic.Int64 // is read, and a while later written
	token  atomic.Int64 // the last one
	writes atomic.Int64
	turns  [2]atomic.Int64 // of each session
}

// throngLease is for how long a lock may stay held whose release was lost: the server
// that ran it was a primary no longer, or was killed before its replicas knew.
const throngLease = 4 * time.Second

// startThrong starts two sessions for a throng.
func startThrong(t testing.TB, d deployment, opts ...relock.SessionOption) *throng {
	t.Helper()
	lost := new(lossCount)
	join := parties(t, d, append(opts, relock.WithLease(throngLease), relock.WithObserver(lost))...)
	return newThrong(join(), join(), lost, pairings, func(kinds string) string { return "traffic " + kinds })
}

// newThrong has two sessions contend for a lock of each of some pairings.
func newThrong(a, b party, lost *lossCount, of []pairing, name func(kinds string) string) *throng {
	tr := &throng{lost: lost}
	tr.failed, tr.fail = context.WithCancelCause(kit.Background)
	tr.ctx, tr.stop = context.WithCancel(kit.Background)
	for _, p := range of {
		g := &guarded{name: name(p.kinds)}
		tr.guarded = append(tr.guarded, g)
		for i, l := range []relock.Locker{p.holds(a, g.name), p.waits(b, g.name)} {
			reads := i == 0 && p.shared || i == 1 && p.kinds == "writer and reader"
			tr.wg.Go(func() { tr.drive(g, i, l, reads) })
		}
	}
	return tr
}

// drive takes and ends one lock again and again.
func (tr *throng) drive(g *guarded, who int, l relock.Locker, reads bool) {
	for tr.ctx.Err() == nil {
		err := l.Lock(tr.ctx)
		switch {
		case err == nil:
			err = errors.Join(g.use(l, reads), kit.LostOrNil(l.Unlock(kit.Background)))
			g.turns[who].Add(1)
		case tr.ctx.Err() != nil:
			return
		case strings.Contains(err.Error(), "replicas have acknowledged"):
			tr.short.Add(1)
			err = nil
		}
		if err != nil {
			tr.fail(fmt.Errorf("%s: %w", g.name, err))
			return
		}
		time.Sleep(rand.N(30 * time.Millisecond))
	}
}

// use does what the lock is there for: one that reads wants the number to stay as it is,
// the others add to it, not atomically.
func (g *guarded) use(l relock.Locker, reads bool) error {
	n, token, last := g.number.Load(), fencingToken(l), g.token.Load()
	time.Sleep(rand.N(3 * time.Millisecond))
	switch {
	case l.Err() != nil: // the failover took longer than a lease
		return nil
	case g.number.Load() != n:
		return errors.New("the number was changed by somebody else")
	case reads:
		return nil
	case token > 0 && token <= last:
		return fmt.Errorf("fencing token %d after %d", token, last)
	}
	g.token.Store(token)
	g.number.Store(n + 1)
	g.writes.Add(1)
	return nil
}

// goesOn waits until each session has had each lock a few times more.
func (tr *throng) goesOn(t testing.TB) {
	t.Helper()
	const turns = 3
	before := make(map[*atomic.Int64]int64)
	for _, g := range tr.guarded {
		for i := range g.turns {
			before[&g.turns[i]] = g.turns[i].Load()
		}
	}
	redistest.Eventually(t, 3*kit.Soon, "the locks to go round", func() bool {
		for turn, n := range before {
			if turn.Load() < n+turns {
				require.NoError(t, context.Cause(tr.failed))
				return false
			}
		}
		return true
	})
}

// end stops the traffic and checks it.
func (tr *throng) end(t testing.TB) {
	t.Helper()
	tr.stop()
	tr.wg.Wait()
	require.NoError(t, context.Cause(tr.failed))
	expired := tr.lost.expired(t)
	total := int64(0)
	for _, g := range tr.guarded {
		require.Equal(t, g.writes.Load(), g.number.Load(), g.name)
		total += g.writes.Load()
	}
	t.Logf("%d exclusive holds, %d expired, %d acquisitions that too few replicas had", total, expired, tr.short.Load())
}
