package topology_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// startUncovered starts a cluster of three that goes on when one of them is gone.
func startUncovered(t testing.TB) *redistest.Cluster {
	t.Helper()
	return redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
}

// namesOn returns n names of which a master has the slots.
func namesOn(c *redistest.Cluster, node *redistest.Server, prefix string, n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprint(prefix, " ", i); c.NodeForKey(name) == node {
			names = append(names, name)
		}
	}
	return names
}

// kinds are the sides of locks that a session alone makes.
var kinds = map[string]func(s *relock.Session, name string) relock.Locker{
	"Mutex":     func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) },
	"FairMutex": func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) },
	"writer":    func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) },
	"reader":    func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name).RLocker() },
}

// holdsOn has a session take locks of all kinds on a master, one after the other, so
// that they are due apart.
func holdsOn(t testing.TB, c *redistest.Cluster, node *redistest.Server, s *relock.Session, each int, apart time.Duration) (held []relock.Locker) {
	t.Helper()
	for kind, of := range kinds {
		for _, name := range namesOn(c, node, "held "+kind, each) {
			l := of(s, name)
			kit.Lock(t, kit.Background, l)
			held = append(held, l)
			time.Sleep(apart)
		}
	}
	return held
}

// relay is calls of Lock that wait for one lock behind each other, and one that always
// gives up.
type relay struct {
	name   string
	turns  atomic.Int64
	failed atomic.Pointer[error]

	mu   sync.Mutex
	wait time.Duration // the longest since it was asked
}

// start runs a relay of the sessions until ctx ends. Each hold lasts for about d.
func (r *relay) start(ctx context.Context, wg *sync.WaitGroup, of func(*relock.Session, string) relock.Locker, d time.Duration, sessions ...*relock.Session) {
	for _, s := range sessions {
		l := of(s, r.name)
		wg.Go(func() {
			for ctx.Err() == nil {
				r.turn(ctx, l, d/2+rand.N(d))
			}
		})
	}
	l := of(sessions[0], r.name)
	wg.Go(func() {
		for ctx.Err() == nil {
			brief, cancel := context.WithTimeout(ctx, d)
			if l.Lock(brief) == nil {
				_ = l.Unlock(kit.Background) // a loss is counted by the observer
			}
			cancel()
		}
	})
}

func (r *relay) turn(ctx context.Context, l relock.Locker, d time.Duration) {
	start := time.Now()
	err := l.Lock(ctx)
	if ctx.Err() != nil && err != nil {
		return
	}
	if err == nil {
		r.mu.Lock()
		r.wait = max(r.wait, time.Since(start))
		r.mu.Unlock()
		r.turns.Add(1)
		select {
		case <-time.After(d):
		case <-l.Done():
		case <-ctx.Done():
		}
		err = l.Unlock(kit.Background)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", r.name, err)
		r.failed.CompareAndSwap(nil, &err)
	}
}

// longest returns the longest wait since it was asked last.
func longest(all []*relay) (d time.Duration) {
	for _, r := range all {
		r.mu.Lock()
		d = max(d, r.wait)
		r.wait = 0
		r.mu.Unlock()
	}
	return d
}

// goRound waits until each relay has had n turns more.
func goRound(t testing.TB, all []*relay, n int64) {
	t.Helper()
	before := make([]int64, len(all))
	for i, r := range all {
		before[i] = r.turns.Load()
	}
	redistest.Eventually(t, 3*kit.Soon, "the relays to go round", func() bool {
		for i, r := range all {
			if wrong := r.failed.Load(); wrong != nil {
				t.Fatal(*wrong)
			}
			if r.turns.Load() < before[i]+n {
				return false
			}
		}
		return true
	})
}

// total returns how many turns there were.
func total(all []*relay) (n int64) {
	for _, r := range all {
		n += r.turns.Load()
	}
	return n
}

// lostNames returns the names of all that was lost, and forgets them.
func (o *lossCount) lostNames() (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.losses {
		names = append(names, e.Name)
	}
	o.losses = nil
	return names
}

// hang is for how long a master of three is stopped.
func hang(t testing.TB) time.Duration { return kit.Stress(t, 10*time.Second) }

// One master hangs for several leases. Those who hold locks of the other two keep them,
// and those who wait there are served; also where calls wait for the master that hangs,
// and clean up after themselves.
func TestHungNodeCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	const lease, each = 3 * time.Second, 5
	c := startUncovered(t)
	hung, well := c.Nodes()[0], c.Nodes()[1:]
	var losses lossCount
	session := func() *relock.Session {
		return kit.SessionOn(t, c.Client(t), relock.WithLease(lease), relock.WithObserver(&losses))
	}
	a, b := session(), session()
	var held []relock.Locker
	for _, node := range well {
		held = append(held, holdsOn(t, c, node, a, each, lease/60)...)
	}
	doomed := holdsOn(t, c, hung, a, each, lease/60)

	ctx, stop := context.WithCancel(kit.Background)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	start := func(node *redistest.Server) (all []*relay) {
		for kind, of := range kinds {
			r := &relay{name: namesOn(c, node, "relay "+kind, 1)[0]}
			r.start(ctx, &wg, of, 20*time.Millisecond, a, b, a, b)
			all = append(all, r)
		}
		// Each of these outlasts the claim.
		for _, name := range namesOn(c, node, "slow relay", 2) {
			r := &relay{name: name}
			r.start(ctx, &wg, kinds["FairMutex"], lease, a, b, a)
		}
		return all
	}
	var relays []*relay
	for _, node := range well {
		relays = append(relays, start(node)...)
	}
	start(hung)
	goRound(t, relays, 20)
	longest(relays)
	turns, before := total(relays), time.Now()
	time.Sleep(lease)
	t.Logf("before: %.0f turns a second, longest wait %v", float64(total(relays)-turns)/time.Since(before).Seconds(), longest(relays))
	require.Empty(t, losses.lostNames())

	require.NoError(t, hung.Freeze())
	began := time.Now()
	turns = total(relays)
	for time.Since(began) < hang(t) {
		goRound(t, relays, 10)
	}
	t.Logf("during: %.0f turns a second, longest wait %v", float64(total(relays)-turns)/time.Since(began).Seconds(), longest(relays))
	lost := make(map[*redistest.Server][]string)
	require.NoError(t, hung.Thaw())
	require.NoError(t, c.Settle())
	for _, name := range losses.lostNames() {
		node := c.NodeForKey(name)
		lost[node] = append(lost[node], name)
	}
	t.Logf("lost of the master that hung: %d", len(lost[hung]))
	for _, node := range well {
		require.Empty(t, lost[node], "lost of a master that is well")
	}
	for _, l := range held {
		require.NoError(t, l.Err())
	}
	for _, l := range doomed {
		require.Error(t, l.Err())
	}
}
