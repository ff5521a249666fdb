package interop_test

import (
	"cmp"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// setting returns what an environment variable says, or else its default.
func setting(t testing.TB, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(os.Getenv(name), otherwise.String()))
	require.NoError(t, err, name)
	require.GreaterOrEqual(t, d, time.Second, name)
	return d
}

// eachRedisson runs a test for each version of Redisson.
func eachRedisson(t *testing.T, f func(t *testing.T, version string)) {
	for _, v := range redissons {
		t.Run("redisson="+v, func(t *testing.T) {
			javaFor(t, v)
			f(t, v)
		})
	}
}

// eachPair runs a test in parallel for each version, with a server and a process of either side.
func eachPair(t *testing.T, lease time.Duration, f func(t *testing.T, at where, g, j *peer)) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		t.Parallel()
		at := single(redistest.Start(t), lease)
		f(t, at, at.start(t, ""), at.start(t, version))
	})
}

// Two processes of each side add to a counter under one lock, by reading and then
// writing: it is exact only if they exclude each other, and each of them must get its
// turns. RELOCK_INTEROP_STRESS sets how long, which is short by default.
func TestHammeredCounterIsExact(t *testing.T) {
	eachRedisson(t, func(t *testing.T, version string) {
		server := redistest.Start(t)
		at := single(server, 10*time.Second)
		peers := []*peer{at.start(t, version), at.start(t, version), at.start(t, ""), at.start(t, "")}
		for _, kind := range []string{"lock", "rw", "fair", "fenced"} {
			t.Run(kind, func(t *testing.T) {
				d := setting(t, "RELOCK_INTEROP_STRESS", 3*time.Second)
				var calls []*call
				for _, p := range peers {
					p.t = t
					for _, thread := range []string{"a", "b"} {
						calls = append(calls, p.begin(thread, "hammer", kind, "hammered "+kind, kind, d.Milliseconds(), 0))
					}
				}
				counted(t, server, kind, calls, d)
			})
		}
	})
}

// counted returns how many turns each hammer had, after all have ended. The counter must be exact
// then, and each must have had a turn.
func counted(t *testing.T, server *redistest.Server, counter string, calls []*call, d time.Duration) map[*call]int {
	t.Helper()
	total, turns := 0, make(map[*call]int)
	for _, c := range calls {
		var writes, reads, torn int
		a := c.wait(d + soon)
		require.NoError(t, a.err)
		_, err := fmt.Sscan(a.result, &writes, &reads, &torn)
		require.NoError(t, err, "%s: %q", c.what, a.result)
		assert.Zero(t, torn, "%s: saw writes half done", c.what)
		assert.NotZero(t, writes+reads, "%s: never got its turn", c.what)
		total += writes
		turns[c] = writes + reads
	}
	for _, half := range halves {
		n, err := server.Do("GET", counter+half)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(total), n, "counter %s", counter+half)
	}
	return turns
}
