package faults_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/test/spec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// soak is a server, workers with a proxy each, and the faults they are given.
type soak struct {
	t       testing.TB
	rnd     *rand.Rand
	kind    string // of lock
	hogs    int    // goroutines of a worker that use up its only processor, for each worker before it
	server  *redistest.Server
	proxies []*redistest.Proxy
	workers []*workerProc // the present ones, by proxy
	gone    []*workerProc // those that were killed
}

const soakLease = 400 * time.Millisecond

func (k *soak) start(i int) {
	k.t.Helper()
	name := fmt.Sprintf("worker %d.%d", i, len(k.gone))
	k.workers[i] = startWorker(k.t, name, worker{
		Kind: k.kind, Goroutines: 2, Lease: soakLease, Tenure: time.Duration(i) * time.Millisecond, Slow: 5, Hogs: k.hogs * i,
		Traced: true,
	}, k.proxies[i])
}

// victim returns a worker: the one that has held the lock for a while if there is
// one, else any.
func (k *soak) victim() int {
	k.t.Helper()
	var before []string
	for range 10 {
		holders := holders(k.t, k.server, "it")
		for i, w := range k.workers {
			if len(holders) > 0 && slices.Equal(holders, before) && strings.HasPrefix(holders[0], w.session) {
				return i
			}
		}
		before = holders
		time.Sleep(20 * time.Millisecond)
	}
	return k.rnd.IntN(len(k.workers))
}

// while returns a time from a tenth of a lease to one and a half.
func (k *soak) while() time.Duration {
	return soakLease/10 + time.Duration(k.rnd.Int64N(int64(soakLease*7/5)))
}

func (k *soak) pause(what string) {
	do(k.t, k.server, "CLIENT", "PAUSE", fmt.Sprint(k.while().Milliseconds()), what)
}

// faults are what may happen beside the outages of the kit.
var faults = map[string]func(k *soak){
	"process frozen": func(k *soak) {
		w := k.workers[k.victim()]
		require.NoError(k.t, w.Freeze())
		time.Sleep(k.while())
		require.NoError(k.t, w.Thaw())
	},
	"process killed": func(k *soak) {
		i := k.victim()
		k.workers[i].kill()
		k.gone = append(k.gone, k.workers[i])
		k.start(i)
	},
	"connections cut": func(k *soak) { k.proxies[k.victim()].Cut() },
	"latency": func(k *soak) {
		p := k.proxies[k.rnd.IntN(len(k.proxies))]
		p.Delay(time.Duration(k.rnd.Int64N(int64(soakLease))))
		time.Sleep(soakLease)
		p.Delay(0)
	},
	"replies lost": func(k *soak) {
		p := k.proxies[k.victim()]
		for range 3 {
			kit.Receive(k.t, kit.DropReplyOf(p, "EVALSHA"), "the loss of a reply")
		}
	},
	"scripts flushed":      func(k *soak) { do(k.t, k.server, "SCRIPT", "FLUSH") },
	"subscriptions killed": func(k *soak) { do(k.t, k.server, "CLIENT", "KILL", "TYPE", "PUBSUB") },
	"clients paused":       func(k *soak) { k.pause("ALL") },
	"writing paused":       func(k *soak) { k.pause("WRITE") },
	"Redis killed at once": func(k *soak) {
		k.server.Kill()
		require.NoError(k.t, k.server.Restart())
	},
}

func init() {
	for _, o := range kit.Outages {
		faults[o.Name] = func(k *soak) {
			p := k.proxies[k.victim()]
			o.Begin(k.server, p)
			time.Sleep(k.while())
			o.Heal(k.server, p)
		}
	}
}

// Each fault happens once, or RELOCK_STRESS says for how long they go on. Certain holds never overlap and
// tokens grow, also if processes have no processor time left, and afterwards things go on for everybody.
func TestCertainHoldsNeverOverlapUnderFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind  string
		rate  int // of holds a second, at least
		only  string
		loses bool // the server forgets when it is killed, so that only the tokens tell holders apart
		hogs  int
	}{
		"Mutex":                    {"Mutex", 5, "", false, 0},
		"FairMutex":                {"FairMutex", 5, "", false, 0},
		"RWMutex":                  {"RWMutex", 5, "", false, 0},
		"a server that loses data": {"Mutex", 5, "Redis killed at once", true, 0},
		"no processor time":        {"Mutex", 1, "frozen", false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			args := kit.EveryWrite
			if c.loses {
				args = nil
			}
			k := &soak{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), kind: c.kind, hogs: c.hogs}
			k.server = redistest.Start(t, args...)
			for i := range 3 {
				k.proxies = append(k.proxies, redistest.NewProxy(t, k.server.Addr()))
				k.workers = append(k.workers, nil)
				k.start(i)
			}
			var names []string
			for name := range faults {
				if c.only != "" {
					name = c.only // as often
				}
				names = append(names, name)
			}
			slices.Sort(names)
			began := rawNow()
			for end := time.Now().Add(kit.Stress(t, 0)); ; {
				for _, i := range k.rnd.Perm(len(names)) {
					faults[names[i]](k)
					time.Sleep(time.Duration(k.rnd.Int64N(int64(soakLease))))
				}
				if time.Now().After(end) {
					break
				}
			}
			goOn(t, "afterwards", 3, k.workers...)
			var all []certainHold
			for _, w := range append(k.gone, k.workers...) {
				all = append(all, w.stop(t)...)
			}
			took := rawNow() - began
			t.Logf("%d holds in %v", len(all), took)
			if c.loses {
				_, stale := sweep(all)
				require.Empty(t, stale)
			} else {
				checkSweep(t, all)
			}
			k.accepted(all, c.loses)
			require.Greater(t, len(all), int(float64(c.rate)*took.Seconds()), "holds")
			freed(t, k.server, "it")
			reads := slices.ContainsFunc(all, func(h certainHold) bool { return h.token == aReader })
			require.Equal(t, c.kind == "RWMutex", reads)
		})
	}
}

// accepted checks that the specification accepts what the server has done, since it lost its data
// last if it does, and that it had each hold that a worker had.
func (k *soak) accepted(holds []certainHold, loses bool) {
	trace, err := spec.Collect(k.server.Do)
	require.NoError(k.t, err)
	var said []spec.Event
	wall := time.Now().UnixMicro() - rawNow().Microseconds() // of the moment when the machine started
	for _, h := range holds {
		if h.from < h.to {
			for name, at := range map[string]time.Duration{spec.Begins: h.from, spec.Ends: h.to} {
				e := spec.Event{Name: name, Keys: []string{"it"}, Args: []string{h.id}}
				e.At = spec.Time(wall + at.Microseconds())
				said = append(said, e)
			}
		}
	}
	c := spec.Checker{Lossy: loses, Extra: 25 * spec.Millisecond}
	require.NoError(k.t, c.Check(spec.Merge(trace, said)))
	require.Zero(k.t, c.Aside)
	k.t.Logf("%d steps are accepted", c.Steps)
}

// The soak test proves something only if it would see a violation. This worker takes
// its hold for certain until it calls Unlock, as if it never looked at Done, Err or
// Deadline; when it is frozen past its lease there are two holders.
func TestSoakSeesAHolderThatIgnoresItsDeadline(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	s := redistest.Start(t)
	sloppy := startWorker(t, "sloppy", worker{Goroutines: 1, Lease: lease, Slow: 100, Sloppy: true}, s)
	sound := startWorker(t, "sound", worker{Goroutines: 1, Lease: lease}, s)
	redistest.Eventually(t, kit.Soon, "the sloppy one to be frozen as it holds the lock", func() bool {
		if !strings.HasPrefix(holderID(t, s, "it"), sloppy.session) {
			return false
		}
		require.NoError(t, sloppy.Freeze())
		time.Sleep(lease / 10) // for what it has said
		sloppy.mu.Lock()
		holds := len(sloppy.open) == 1
		sloppy.mu.Unlock()
		if holds && strings.HasPrefix(holderID(t, s, "it"), sloppy.session) {
			return true
		}
		require.NoError(t, sloppy.Thaw())
		return false
	})
	redistest.Eventually(t, kit.Soon, "the sound one to hold it", func() bool {
		return strings.HasPrefix(holderID(t, s, "it"), sound.session)
	})
	time.Sleep(lease / 10)
	require.NoError(t, sloppy.Thaw())
	overlaps, stale := sweep(append(sound.stop(t), sloppy.stop(t)...))
	require.NotEmpty(t, overlaps)
	require.Empty(t, stale, "the tokens tell which of the two is the later holder")
}

// Two of five servers at a time are killed and come back, each of them once. The Redis documentation says
// what a server must do that comes back within a lease: remember what it has granted, or else stay away until
// that has ended.
func TestRedlockExcludesProcessesWhileServersRestart(t *testing.T) {
	for how, c := range map[string]struct {
		args  []string
		lease time.Duration
		away  time.Duration
	}{
		"with their data, at once":  {kit.EveryWrite, 10 * time.Second, 0},
		"without, after the leases": {nil, 3 * time.Second, 3200 * time.Millisecond},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			var servers []*redistest.Server
			var at []kit.Addressed
			for range 5 {
				s := redistest.Start(t, c.args...)
				servers, at = append(servers, s), append(at, s)
			}
			var workers []*workerProc
			for i := range 3 {
				w := worker{Kind: "Redlock", Goroutines: 2, Lease: c.lease}
				workers = append(workers, startWorker(t, fmt.Sprint("worker ", i), w, at...))
			}
			goOn(t, "at the start", 5, workers...)
			for _, down := range [][]int{{0, 1}, {2, 3}, {4, 0}} {
				for _, i := range down {
					servers[i].Kill()
				}
				killed := time.Now()
				goOn(t, fmt.Sprint("without ", down), 5, workers...)
				time.Sleep(time.Until(killed.Add(c.away)))
				for _, i := range down {
					require.NoError(t, servers[i].Restart())
				}
				goOn(t, fmt.Sprint("with ", down, " again"), 5, workers...)
			}
			var all []certainHold
			for _, w := range workers {
				all = append(all, w.stop(t)...)
			}
			checkSweep(t, all)
		})
	}
}

// A certainHold is what is certain of one hold: from the return of Lock to the
// earlier of the call of Unlock and the local deadline. Times are of one clock that
// all holders share.
type certainHold struct {
	who      string
	from, to time.Duration
	token    int64
	id       string // in Redis, if the worker is traced
}

// Holds without a fencing token.
const (
	aReader = -1 // excludes writers only
	noToken = 0
)

func (c certainHold) String() string {
	return fmt.Sprintf("%s, token %d: %v to %v", c.who, c.token, c.from, c.to)
}

// sweep goes through holds in the order of their beginnings, and returns those that
// begin before an earlier one has ended, and those whose token is not larger than
// all before. Holds that were over before they began are nobody's.
func sweep(holds []certainHold) (overlaps, stale []string) {
	holds = slices.DeleteFunc(slices.Clone(holds), func(h certainHold) bool { return h.from >= h.to })
	slices.SortFunc(holds, func(a, b certainHold) int { return cmp.Compare(a.from, b.from) })
	var last, lastRead, top certainHold // that end last, and the one with the largest token
	for _, h := range holds {
		for _, other := range []certainHold{last, lastRead} {
			if h.from < other.to && (h.token != aReader || other.token != aReader) {
				overlaps = append(overlaps, fmt.Sprintf("%v, during %v", h, other))
			}
		}
		if h.token > noToken && h.token <= top.token {
			stale = append(stale, fmt.Sprintf("%v, after %v", h, top))
		}
		if h.token == aReader && h.to > lastRead.to {
			lastRead = h
		} else if h.token != aReader && h.to > last.to {
			last = h
		}
		if h.token > top.token {
			top = h
		}
	}
	return overlaps, stale
}

// checkSweep fails the test if certain holds overlap, or their tokens do not grow.
func checkSweep(t testing.TB, holds []certainHold) {
	t.Helper()
	overlaps, stale := sweep(holds)
	assert.Empty(t, overlaps[:min(10, len(overlaps))], "two certain holds at once, %d times", len(overlaps))
	assert.Empty(t, stale[:min(10, len(stale))], "%d tokens that are not larger", len(stale))
}

func TestSweepSeesOverlapsAndTokensOutOfOrder(t *testing.T) {
	t.Parallel()
	h := func(who string, from, to time.Duration, token int64) certainHold {
		return certainHold{who: who, from: from, to: to, token: token}
	}
	for name, c := range map[string]struct {
		holds           []certainHold
		overlaps, stale int
	}{
		"one after the other":    {[]certainHold{h("b", 5, 9, 2), h("a", 1, 5, 1)}, 0, 0},
		"within a long one":      {[]certainHold{h("a", 1, 50, 1), h("b", 4, 9, 2), h("c", 10, 11, 3)}, 2, 0},
		"over before it began":   {[]certainHold{h("a", 1, 5, 1), h("b", 4, 3, 2), h("c", 2, 2, 0)}, 0, 0},
		"old tokens":             {[]certainHold{h("a", 1, 2, 7), h("b", 3, 4, 6), h("c", 5, 6, 7), h("d", 7, 8, 8)}, 0, 2},
		"no tokens":              {[]certainHold{h("a", 1, 3, noToken), h("b", 3, 5, noToken), h("c", 4, 6, noToken)}, 1, 0},
		"readers":                {[]certainHold{h("a", 1, 9, aReader), h("b", 2, 3, aReader), h("c", 9, 10, 1), h("d", 10, 11, aReader)}, 0, 0},
		"a writer among readers": {[]certainHold{h("a", 1, 9, aReader), h("b", 2, 3, aReader), h("c", 8, 10, 1)}, 1, 0},
		"a reader during writes": {[]certainHold{h("c", 1, 10, 1), h("a", 2, 3, aReader), h("b", 9, 11, aReader)}, 2, 0},
	} {
		overlaps, stale := sweep(c.holds)
		assert.Len(t, overlaps, c.overlaps, name)
		assert.Len(t, stale, c.stale, name)
	}
}
