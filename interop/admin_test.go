package interop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// What either side says of a lock that the other holds.
func TestEachSideSeesTheHoldsOfTheOther(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		t.Parallel()
		const lease = 20 * time.Second
		at := single(redistest.Start(t), lease)
		g, j := at.start(t, ""), at.start(t, version)
		for _, kind := range []string{"lock", "fenced", "fair", "write", "read"} {
			g.do("a", "lock", kind, "Go "+kind)
			var locked, mine bool
			var ttl, count int64
			seen := j.do("a", "inspect", kind, "Go "+kind)
			if _, err := fmt.Sscan(seen, &locked, &ttl, &count, &mine); err != nil {
				t.Fatalf("%q: %v", seen, err)
			}
			if !locked || ttl <= 0 || ttl > lease.Milliseconds() || count != 0 || mine {
				t.Errorf("%s held by Go, seen from Java: %s; want it locked, for at most %v, and not by this thread", kind, seen, lease)
			}
			g.do("a", "unlock", kind, "Go "+kind)
			if seen := j.do("a", "inspect", kind, "Go "+kind); seen != "false -2 0 false" {
				t.Errorf("%s released by Go, seen from Java: %s", kind, seen)
			}

			// Redisson counts in Redis how often a thread has locked.
			holder := j.do("a", "thread")
			j.do("a", "lock", kind, "Java "+kind)
			j.do("a", "lock", kind, "Java "+kind)
			mode := "exclusive"
			if kind == "read" {
				mode = "shared"
			}
			for count := 2; count > 0; count-- {
				words := strings.Fields(g.do("a", "inspect", kind, "Java "+kind))
				if len(words) != 3 || words[0] != mode || words[2] != fmt.Sprint(holder, "=", count) {
					t.Errorf("%s held by Java, seen from Go: %v; want %s, and %s=%d", kind, words, mode, holder, count)
				}
				wanted := rival(kind)
				if g.gets("a", wanted, "Java "+kind) {
					t.Errorf("%s: Go got a lock that Java holds %d times", kind, count)
				}
				j.do("a", "unlock", kind, "Java "+kind)
			}
			if seen := g.do("a", "inspect", kind, "Java "+kind); !strings.HasPrefix(seen, "unlocked") {
				t.Errorf("%s released by Java, seen from Go: %s", kind, seen)
			}
		}
	})
}

// Either side can open what the other holds. A relock holder is told at once if relock
// has done it, else by its next renewal; a waiter of either side gets in.
func TestForceUnlockFromEitherSide(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		t.Parallel()
		const lease = 6 * time.Second
		at := single(redistest.Start(t), lease)
		g, j, h := at.start(t, ""), at.start(t, version), at.start(t, "")
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
					if a.result != "true" {
						t.Errorf("%v forced the lock of %v: %s", who.forcer, who.holder, a.result)
					}
					got := waits.must()
					if who.forcer == g || who.forcer == h {
						if d := time.Duration(got.end - a.start); d > lease/2 {
							t.Errorf("%v forced the lock of %v: %v got in after %v", who.forcer, who.holder, who.waiter, d)
						}
					}
					if lost != nil {
						end := lost.must()
						if end.result != "true" {
							t.Errorf("the holder was told %s", end.result)
						}
						told := time.Duration(end.end - a.start)
						most := lease * 2 / 3
						if who.forcer == h {
							most = lease / 4
						}
						if told > most {
							t.Errorf("%v forced the lock of Go, which was told after %v", who.forcer, told)
						}
					}
					if a := who.holder.begin(holder, "unlock", kind, name).wait(soon); a.err == nil {
						t.Errorf("%v: Unlock of a hold that was forced open has succeeded", who.holder)
					}
					who.waiter.do(waiter, "unlock", wanted, name)
				}
			})
		}
	})
}
