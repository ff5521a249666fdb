package interop_test

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// samples returns how many wake-ups are measured: RELOCK_INTEROP_SAMPLES, by default few.
func samples(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("RELOCK_INTEROP_SAMPLES"), "20"))
	require.NoError(t, err)
	return n
}

// A waiter of either side gets in when a holder of either side releases, and not when
// its lease would have ended. Fair locks are not mixed with others under one name: a
// Redisson process that does that sleeps out the lease even among its own kind.
func TestReleaseWakesTheOtherSide(t *testing.T) {
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
					pair.holder.t, pair.waiter.t = t, t
					times := wakeUps(pair.holder, pair.waiter, k[0], k[1])
					slices.Sort(times)
					p50, p99 := times[len(times)/2], times[len(times)*99/100]
					t.Logf("%s: p50 %v, p99 %v", pair.name, p50, p99)
					if pair.name != "Java to Java" {
						assert.LessOrEqual(t, p50, 100*time.Millisecond, "half of the wake-ups, %s", pair.name)
					}
				}
			})
		}
	})
}

// wakeUps returns how long after the begin of an unlock a waiter has the lock.
func wakeUps(holder, waiter *peer, held, wanted string) (times []time.Duration) {
	const name, warm = "woken", 5
	for i := range samples(holder.t) + warm {
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
