package interop_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What either side says of a lock that the other holds.
func TestEachSideSeesTheHoldsOfTheOther(t *testing.T) {
	const lease = 20 * time.Second
	eachPair(t, lease, func(t *testing.T, _ where, g, j *peer) {
		for _, kind := range []string{"lock", "fenced", "fair", "write", "read"} {
			g.do("a", "lock", kind, "Go "+kind)
			var locked, mine bool
			var ttl, count int64
			seen := j.do("a", "inspect", kind, "Go "+kind)
			_, err := fmt.Sscan(seen, &locked, &ttl, &count, &mine)
			require.NoError(t, err, seen)
			require.True(t, locked && ttl > 0 && ttl <= lease.Milliseconds() && count == 0 && !mine,
				"%s held by Go, seen from Java: %s; want it locked, for at most %v, and not by this thread", kind, seen, lease)
			g.do("a", "unlock", kind, "Go "+kind)
			require.Equal(t, "false -2 0 false", j.do("a", "inspect", kind, "Go "+kind), "%s released by Go", kind)

			// Redisson counts in Redis how often a thread has locked.
			holder := j.do("a", "thread")
			j.do("a", "lock", kind, "Java "+kind)
			j.do("a", "lock", kind, "Java "+kind)
			mode := map[bool]string{true: "shared", false: "exclusive"}[kind == "read"]
			for count := 2; count > 0; count-- {
				seen := g.do("a", "inspect", kind, "Java "+kind)
				require.Regexp(t, fmt.Sprintf(`^%s \d+ %s=%d$`, mode, regexp.QuoteMeta(holder), count), seen, kind)
				require.False(t, g.gets("a", rival(kind), "Java "+kind), "Java holds it %d times", count)
				j.do("a", "unlock", kind, "Java "+kind)
			}
			require.Regexp(t, "^unlocked", g.do("a", "inspect", kind, "Java "+kind), kind)
		}
	})
}

// Either side can open what the other holds. A relock holder is told at once if relock
// has done it, else by its next renewal; a waiter of either side gets in, that of an RFairLock when its timer says so.
func TestForceUnlockFromEitherSide(t *testing.T) {
	const lease = 6 * time.Second
	eachPair(t, lease, func(t *testing.T, at where, g, j *peer) {
		h := at.start(t, "")
		for _, kind := range []string{"lock", "fair", "write", "read", "fenced"} {
			t.Run(kind, func(t *testing.T) {
				g.t, j.t, h.t = t, t, t
				wanted := rival(kind)
				for i, who := range []struct{ holder, forcer, waiter *peer }{
					{g, h, j}, {g, h, h}, {g, j, j}, {g, j, h}, {j, g, j}, {j, g, g}, {j, j, g},
				} {
					name := fmt.Sprint(i, kind)
					holder, waiter := fmt.Sprint("holder", kind, i), fmt.Sprint("waiter", kind, i)
					who.holder.do(holder, "lock", kind, name)
					waits := who.waiter.begin(waiter, "lock", wanted, name)
					waits.waits(200 * time.Millisecond)
					var lost *call
					if who.holder == g {
						lost = g.begin(holder, "lost", kind, name)
					}
					a := who.forcer.begin(fmt.Sprint("forcer", i), "force", kind, name).must()
					require.Equal(t, "true", a.result)
					got := waits.must()
					if who.forcer != j && wakes(who.forcer, who.waiter, wanted) {
						require.LessOrEqual(t, time.Duration(got.end-a.start), lease/2, "until %v got in", who.waiter)
					}
					if lost != nil {
						end := lost.must()
						require.Equal(t, "true", end.result)
						most := lease * 2 / 3
						if who.forcer == h {
							most = lease / 4
						}
						require.LessOrEqual(t, time.Duration(end.end-a.start), most, "until the holder was told")
					}
					a = who.holder.begin(holder, "unlock", kind, name).wait(soon)
					require.Error(t, a.err, "Unlock of a hold that was forced open")
					who.waiter.do(waiter, "unlock", wanted, name)
				}
			})
		}
	})
}
