package interop_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shares has one process hammer a lock beside others, for several pairs of kinds: its own, and theirs. Each side
// must get at least a tenth of an even share of the turns, by the number of its processes. RELOCK_INTEROP_SHARE
// sets for how long: 3 s have 30 turns of 100 ms for either side, which leaves much to chance. So they have four times
// as long if they do not.
func shares(t *testing.T, server *redistest.Server, d time.Duration, title string, peers []*peer, last [2]string) {
	for _, kinds := range [][2]string{{"lock", "lock"}, {"write", "write"}, {"read", "write"}, last} {
		t.Run(fmt.Sprintf(title, kinds[0], kinds[1]), func(t *testing.T) {
			least, even := share(t, server, d, peers, kinds)
			if least < even/10 {
				least, even = share(t, server, 4*d, peers, kinds)
			}
			assert.GreaterOrEqual(t, least, even/10, "a tenth of an even share")
		})
	}
}

// share returns what the side with the fewer turns has of them, and what would be even.
func share(t *testing.T, server *redistest.Server, d time.Duration, peers []*peer, kinds [2]string) (least, even float64) {
	counter := strings.ReplaceAll(fmt.Sprint(t.Name(), d), " ", "-")
	var calls []*call
	for i, p := range peers {
		p.t = t
		calls = append(calls, p.begin("share", "hammer", kinds[min(i, 1)], counter, counter, d.Milliseconds(), 1))
	}
	total, turns := 0, counted(t, server, counter, calls, d)
	for _, n := range turns {
		total += n
	}
	first := float64(turns[calls[0]])
	even = float64(total) / float64(len(peers))
	rest := (float64(total) - first) / float64(len(peers)-1)
	t.Logf("%.0f turns, and %.0f of each other, of an even share of %.0f", first, rest, even)
	return min(first, rest), even
}

// One process of either side hammers a lock amid four of the other.
func TestSharesOfBothSides(t *testing.T) {
	eachRedisson(t, func(t *testing.T, version string) {
		server := redistest.Start(t)
		at := single(server, 30*time.Second)
		var gos, javas []*peer
		for range 4 {
			gos, javas = append(gos, at.start(t, "")), append(javas, at.start(t, version))
		}
		warmUp(javas, "lock", "rw")
		d, last := setting(t, "RELOCK_INTEROP_SHARE", 8*time.Second), [2]string{"write", "rw"}
		shares(t, server, d, "one Java %s amid 4 Go %s", append(javas[:1:1], gos...), last)
		shares(t, server, d, "one Go %s amid 4 Java %s", append(gos[:1:1], javas...), last)
	})
}

// warmUp has processes use locks of some kinds for half a second each: a JVM is slow at first.
func warmUp(peers []*peer, kinds ...string) {
	var all []*call
	for i, p := range peers {
		for _, kind := range kinds {
			name := fmt.Sprint("warm", i, kind)
			all = append(all, p.begin("warm", "hammer", kind, name, name, 500, 0))
		}
	}
	for _, c := range all {
		c.must()
	}
}

// A process of Redisson and two of relock beside it are the same way from Redis. Nothing is promised of different
// distances.
func TestSharesOfADistantRedisson(t *testing.T) {
	version := redissons[len(redissons)-1]
	javaFor(t, version)
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	at := where{"single", proxy.Addr(), 30 * time.Second}
	java, gos := at.start(t, version), []*peer{at.start(t, ""), at.start(t, "")}
	warmUp([]*peer{java}, "lock", "rw")
	d := min(setting(t, "RELOCK_INTEROP_SHARE", 3*time.Second), 3*time.Second)
	for _, distance := range []time.Duration{0, 4 * time.Millisecond, 20 * time.Millisecond} {
		proxy.Delay(distance)
		title := fmt.Sprintf("Java %%s at %v beside 2 Go %%s", distance)
		shares(t, server, d, title, append([]*peer{java}, gos...), [2]string{"write", "read"})
	}
}

// A waiter of either side gets in when a holder of either side releases, and not when
// its lease would have ended; but relock wakes no waiter of an RFairLock. Fair locks are not mixed with others under one
// name: a Redisson process that does that sleeps out the lease even among its own kind. RELOCK_INTEROP_SAMPLES sets how
// many wake-ups are measured, few by default.
func TestReleaseWakesTheOtherSide(t *testing.T) {
	samples, err := strconv.Atoi(cmp.Or(os.Getenv("RELOCK_INTEROP_SAMPLES"), "20"))
	require.NoError(t, err)
	eachRedisson(t, func(t *testing.T, version string) {
		at := single(redistest.Start(t), 30*time.Second)
		g1, g2, j1, j2 := at.start(t, ""), at.start(t, ""), at.start(t, version), at.start(t, version)
		pairs := []struct {
			name           string
			holder, waiter *peer
		}{{"Java to Java", j1, j2}, {"Java to Go", j1, g1}, {"Go to Java", g1, j1}, {"Go to Go", g1, g2}}
		kinds := [][2]string{{"lock", "lock"}, {"fenced", "fenced"}, {"write", "write"}, {"write", "read"},
			{"read", "write"}, {"fair", "fair"}}
		for _, k := range kinds {
			t.Run(k[0]+" to "+k[1], func(t *testing.T) {
				for _, pair := range pairs {
					if !wakes(pair.holder, pair.waiter, k[1]) {
						continue
					}
					pair.holder.t, pair.waiter.t = t, t
					times := wakeUps(samples, pair.holder, pair.waiter, k[0], k[1])
					slices.Sort(times)
					p50, p99 := times[len(times)/2], times[len(times)*99/100]
					t.Logf("%s: p50 %v, p99 %v", pair.name, p50, p99)
					if pair.name != "Java to Java" {
						assert.LessOrEqual(t, p50, 500*time.Millisecond, "half of the wake-ups, %s", pair.name)
					}
				}
			})
		}
	})
}

// wakes reports whether a release of one process wakes a waiter of another: relock leaves Redisson's fair queue alone.
func wakes(from, waiter *peer, wanted string) bool {
	return from.java || !waiter.java || wanted != "fair"
}

// wakeUps returns how long after the begin of an unlock a waiter has the lock.
func wakeUps(samples int, holder, waiter *peer, held, wanted string) (times []time.Duration) {
	const name, warm = "woken", 5
	for i := range samples + warm {
		holder.do("holder", "lock", held, name)
		c := waiter.begin("waiter", "lock", wanted, name)
		c.waits(25 * time.Millisecond)
		released := holder.begin("holder", "unlock", held, name).must()
		got := c.must()
		waiter.do("waiter", "unlock", wanted, name)
		if i >= warm {
			times = append(times, time.Duration(got.end-released.start))
		}
	}
	return times
}
