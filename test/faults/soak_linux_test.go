package faults_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// soak is a server, workers with a proxy each, and the faults they are given.
type soak struct {
	t       testing.TB
	rnd     *rand.Rand
	kind    string // of lock
	lease   time.Duration
	server  *redistest.Server
	proxies []*redistest.Proxy
	workers []*workerProc // the present ones, by proxy
	gone    []*workerProc // those that were killed
	landed  map[string]int
}

func (k *soak) start(i int) {
	k.t.Helper()
	name := fmt.Sprintf("worker %d.%d", i, len(k.gone))
	k.workers[i] = startWorker(k.t, name, k.proxies[i], "it", worker{
		kind: k.kind, goroutines: 2, lease: k.lease, tenure: time.Duration(i) * time.Millisecond, slow: 5,
	})
}

// victim returns a worker: the one that has held the lock for a while if there is
// one, else any.
func (k *soak) victim() int {
	k.t.Helper()
	before := ""
	for range 10 {
		holder := k.holder()
		for i, w := range k.workers {
			if holder != "" && holder == before && strings.HasPrefix(holder, w.session) {
				return i
			}
		}
		before = holder
		time.Sleep(20 * time.Millisecond)
	}
	return k.rnd.IntN(len(k.workers))
}

// holder returns the hold id of one who has the lock.
func (k *soak) holder() string {
	k.t.Helper()
	reply, err := k.server.Do("HKEYS", "it")
	require.NoError(k.t, err)
	for _, field := range reply.([]any) {
		if field != "mode" {
			return field.(string)
		}
	}
	return ""
}

// replies are those that may be lost, by the scripts that they are to.
func (k *soak) replies() []string {
	switch k.kind {
	case "FairMutex":
		return []string{kit.AcquireSHA, kit.ReleaseSHA, kit.LookSHA, kit.RenewSHA}
	case "RWMutex":
		return []string{
			kit.ReadSHA, kit.ReleaseReadSHA, kit.AcquireSHA, kit.ReleaseSHA,
			kit.LookSHA, kit.RenewReadSHA, kit.RenewSHA,
		}
	}
	return []string{kit.AcquireSHA, kit.ReleaseSHA, kit.RenewSHA}
}

// while returns a time from a tenth of a lease to one and a half.
func (k *soak) while() time.Duration {
	d := k.lease/10 + time.Duration(k.rnd.Int64N(int64(k.lease*7/5)))
	if d > k.lease {
		k.landed["longer than the lease"]++
	}
	return d
}

// faults are what may happen. Each reports whether it did.
var faults = []struct {
	name string
	do   func(k *soak) bool
}{
	{"Redis frozen", func(k *soak) bool {
		k.victim()
		if k.server.Freeze() != nil {
			return false
		}
		time.Sleep(k.while())
		return k.server.Thaw() == nil
	}},
	{"Redis killed", func(k *soak) bool {
		k.server.Kill()
		return k.server.Restart() == nil
	}},
	{"process frozen", func(k *soak) bool {
		w := k.workers[k.victim()]
		if w.Freeze() != nil {
			return false
		}
		time.Sleep(k.while())
		return w.Thaw() == nil
	}},
	{"process killed", func(k *soak) bool {
		i := k.victim()
		k.workers[i].kill()
		k.gone = append(k.gone, k.workers[i])
		k.start(i)
		return true
	}},
	{"connections cut", func(k *soak) bool {
		p := k.proxies[k.victim()]
		n := p.Connections()
		p.Cut()
		return n > 0
	}},
	{"blackhole", func(k *soak) bool {
		p := k.proxies[k.victim()]
		before := p.Dropped()
		p.Blackhole(true)
		time.Sleep(k.while())
		p.Blackhole(false)
		return p.Dropped() > before
	}},
	{"stall", func(k *soak) bool {
		p := k.proxies[k.victim()]
		p.Stall(true)
		time.Sleep(k.while())
		p.Stall(false)
		return true
	}},
	{"latency", func(k *soak) bool {
		p := k.proxies[k.rnd.IntN(len(k.proxies))]
		p.Delay(time.Duration(k.rnd.Int64N(int64(k.lease))))
		time.Sleep(k.lease)
		p.Delay(0)
		return true
	}},
	{"reply lost", func(k *soak) bool {
		what := k.replies()
		landed := kit.DropReplyOf(k.proxies[k.victim()], what[k.rnd.IntN(len(what))])
		select {
		case <-landed:
			return true
		case <-time.After(k.lease):
			return false // and lands later, perhaps
		}
	}},
	{"scripts flushed", func(k *soak) bool {
		_, err := k.server.Do("SCRIPT", "FLUSH")
		return err == nil
	}},
	{"subscriptions killed", func(k *soak) bool {
		n, err := k.server.Do("CLIENT", "KILL", "TYPE", "PUBSUB")
		return err == nil && n != int64(0)
	}},
	{"clients paused", func(k *soak) bool {
		_, err := k.server.Do("CLIENT", "PAUSE", fmt.Sprint(k.while().Milliseconds()), []string{"ALL", "WRITE"}[k.rnd.IntN(2)])
		return err == nil
	}},
}

func TestCertainHoldsNeverOverlapUnderFaults(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Mutex", "FairMutex", "RWMutex"} {
		span, rate := 8*time.Second, 20
		if kind != "Mutex" {
			span, rate = 5*time.Second, 5
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			certainHoldsNeverOverlap(t, kind, kit.Stress(t, span), rate)
		})
	}
}

// certainHoldsNeverOverlap lets things happen for a span, in which there must be so many
// holds a second.
func certainHoldsNeverOverlap(t *testing.T, kind string, span time.Duration, rate int) {
	const lease = 400 * time.Millisecond
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	k := &soak{
		t: t, rnd: rand.New(rand.NewPCG(seed, 0)), kind: kind, lease: lease,
		server: redistest.Start(t, kit.EveryWrite...),
		landed: make(map[string]int),
	}
	for i := range 3 {
		k.proxies = append(k.proxies, redistest.NewProxy(t, k.server.Addr()))
		k.workers = append(k.workers, nil)
		k.start(i)
	}
	began := rawNow()
	end := time.Now().Add(span)
	var happened int
	for time.Now().Before(end) {
		for _, i := range k.rnd.Perm(len(faults)) { // each of them before one comes again
			if time.Now().After(end) {
				break
			}
			if faults[i].do(k) {
				k.landed[faults[i].name]++
				happened++
			}
			time.Sleep(time.Duration(k.rnd.Int64N(int64(lease))))
		}
	}
	// Afterwards things go on, for everybody.
	time.Sleep(2 * lease)
	var all []certainHold
	lost := 0
	for _, w := range append(k.gone, k.workers...) {
		if w.Running() {
			w.stop(t)
		}
		r := w.report(t)
		all, lost = append(all, r.holds...), lost+r.lost
	}
	took := rawNow() - began
	checkSweep(t, all)
	gaps := idle(all)
	t.Logf("%d holds in %v, %d of them lost, longest without a holder %v, faults %v",
		len(all), took, lost, gaps[:min(3, len(gaps))], k.landed)
	require.GreaterOrEqual(t, happened, int(span/time.Second), "faults that landed")
	require.Greater(t, len(all), int(float64(rate)*took.Seconds()), "holds")
	redistest.Eventually(t, lease+kit.Soon, "the lock to be free", func() bool { return k.holder() == "" })
	reads := slices.ContainsFunc(all, func(h certainHold) bool { return h.token == aReader })
	require.Equal(t, kind == "RWMutex", reads)
}

// The soak test proves something only if it would see a violation. This worker takes
// its hold for certain until it calls Unlock, as if it never looked at Done, Err or
// Deadline; when it is frozen past its lease there are two holders.
func TestSoakSeesAHolderThatIgnoresItsDeadline(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	s := redistest.Start(t)
	sloppy := startWorker(t, "sloppy", s, "it", worker{goroutines: 1, lease: lease, slow: 100, sloppy: true})
	sound := startWorker(t, "sound", s, "it", worker{goroutines: 1, lease: lease})
	redistest.Eventually(t, kit.Soon, "the sloppy one to be frozen as it holds the lock", func() bool {
		if !strings.HasPrefix(holderID(t, s, "it"), sloppy.session) {
			return false
		}
		require.NoError(t, sloppy.Freeze())
		if strings.HasPrefix(holderID(t, s, "it"), sloppy.session) {
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
	sound.stop(t)
	sloppy.stop(t)
	r := sloppy.report(t)
	require.Positive(t, r.lost)
	overlaps, stale := sweep(append(r.holds, sound.report(t).holds...))
	require.NotEmpty(t, overlaps)
	require.Empty(t, stale, "the tokens tell which of the two is the later holder")
}
