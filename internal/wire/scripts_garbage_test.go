package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A place with garbage in it, which comes next by its score, costs a claim at most: the hold before it ends, and
// nobody has the lock for good.
func TestPlaceOfGarbageCostsAClaimAtMost(t *testing.T) {
	for what, place := range map[string]string{
		"no id": " x%s", "no claim": session("z") + ":1%s ", "claim too large": session("z") + ":1%s 99999999999999999999",
		"claim of years": session("z") + ":1%s 99999999999", "no hold id": "garbage%s",
	} {
		for _, k := range []Kind{Fair, Write} {
			queue, place := placesQueue, strings.Replace(place, "%s", "", 1)
			if k == Write {
				queue, place = rwQueue, strings.Replace(place, ":1", ":1:write", 1)
			}
			if k == Write && !strings.Contains(place, ":write") {
				place += ":write"
			}
			t.Run(fmt.Sprint(what, " ", k), func(t *testing.T) {
				onRWRigs(t, func(t *testing.T, r *rwRig) {
					h, l := r.lease(k, 1), r.lease(k, 2)
					_, _, err := r.Acquire(ctx0, h, Millis(h.Length), false)
					require.NoError(t, err)
					r.must("ZADD", queue, "0.5", place)
					_, err = r.Release(ctx0, h, nil)
					assert.NoError(t, err)
					assert.NotContains(t, r.hash("a"), h.ID, "the hold has not ended")
					r.must("DEL", "a")
					r.must("ZADD", queue, "0.5", place)
					_, _, err = r.Acquire(ctx0, l, Millis(l.Length), true)
					assert.NoError(t, err)
					if r.hash("a")[l.ID] == "" && r.int("EXISTS", "a") == 1 {
						assert.Greater(t, r.pttl("a"), time.Duration(0), "nothing ends what the garbage has")
						assert.LessOrEqual(t, r.pttl("a"), ClaimMost)
					}
				})
			})
		}
	}
}

// Somebody deletes the lock whose claim is not confirmed yet; Redisson may have it meanwhile.
func TestReleaseOfAClaimThatIsGoneFindsNothing(t *testing.T) {
	for _, k := range []Kind{Fair, Write} {
		onRWRigs(t, func(t *testing.T, r *rwRig) {
			r.present()
			h, l := r.lease(k, 1), r.lease(k, 2)
			_, _, err := r.Acquire(ctx0, h, Millis(h.Length), false)
			require.NoError(t, err)
			_, _, err = r.Acquire(ctx0, l, Millis(l.Length), true)
			require.NoError(t, err)
			r.end(h)
			require.Contains(t, r.hash("a"), l.ID)
			r.must("DEL", "a")
			r.must("HSET", "a", "11111111-2222-4333-8444-555555555555:1", "1") // Redisson
			told, err := r.Release(ctx0, l, nil)
			require.NoError(t, err)
			require.EqualValues(t, -1, told)
		})
	}
}

// The lock became an application's hash in read mode while readers queue: none is told that it reads.
func TestReadersAreNotLetIntoAnApplicationsHash(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		next := r.present()
		w, a, b := r.writer(1), r.reader(2), r.reader(3)
		b.ID = id("b:3")
		r.writes(w)
		r.refused(a, time.Millisecond, time.Minute)
		r.refused(b, time.Millisecond, time.Minute)
		r.must("DEL", "a")
		r.must("HSET", "a", "mode", "read", "color", "blue")
		replies, errs := r.Probe(ctx0, []*Ref{b})
		t.Log(replies, errs, r.hash("a"))
		r.mustMessages(next, "relock_session:"+session("s"))
	})
}

// The first of the queue gives up, who alone polls a lock that Redisson has: the next takes its part, also beside
// places that stand back.
func TestNextLooksWhenTheFirstGivesUp(t *testing.T) {
	for _, k := range []Kind{Fair, Write} {
		for _, dead := range []bool{false, true} {
			t.Run(fmt.Sprint(k, dead), func(t *testing.T) {
				onRWRigs(t, func(t *testing.T, r *rwRig) {
					next := r.present()
					if k == Fair {
						r.must("HSET", "a", "11111111-2222-4333-8444-555555555555:1", "1")
						r.must("PEXPIRE", "a", "30000")
					} else {
						r.redissonWrites("11111111-2222-4333-8444-555555555555:1", 1, 30*time.Second)
					}
					first, second := r.lease(k, 1), r.lease(k, 2)
					for _, l := range []*Ref{first, second} {
						_, _, err := r.Acquire(ctx0, l, Millis(l.Length), true)
						require.NoError(t, err)
					}
					if dead {
						r.must("ZADD", first.Keys.aux, "-5", session("z")+":1")
					}
					_, err := r.Release(ctx0, first, nil)
					require.NoError(t, err)
					r.mustMessages(next, "relock_session:"+session("s"), "relock_session:"+session("s")+" look "+second.ID)
				})
			})
		}
	}
}

// One place with an endless score does not end the order of arrival: those with large session ids starved.
func TestPlaceAtInfinityDoesNotEndTheOrder(t *testing.T) {
	for _, score := range []string{"inf", "1e300"} {
		for _, k := range []Kind{Fair, Write} {
			t.Run(fmt.Sprint(score, k), func(t *testing.T) {
				onRWRigs(t, func(t *testing.T, r *rwRig) {
					if r.mini {
						return // its scores have no such values
					}
					next := r.listen("relock_session:"+session("c"), "relock_session:"+session("a"))
					h, c, a := r.lease(k, 1), r.lease(k, 2), r.lease(k, 3)
					c.ID, a.ID = id("c:2"), id("a:3")
					if k == Write {
						c.ID, a.ID = c.ID+":write", a.ID+":write"
					}
					_, _, err := r.Acquire(ctx0, h, Millis(h.Length), false)
					require.NoError(t, err)
					r.must("ZADD", h.Keys.aux, score, "garbage:write")
					for _, l := range []*Ref{c, a} {
						_, _, err := r.Acquire(ctx0, l, Millis(l.Length), true)
						require.NoError(t, err)
					}
					r.end(h)
					require.Contains(t, next(), "relock_session:"+session("c")+" granted", "the order of arrival")
				})
			})
		}
	}
}

// A reader among the writers was neither granted the lock as a writer nor let in as a reader, and nobody came after it.
func TestReaderAmongTheWritersBlocksNobody(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present()
		h, l := r.writer(1), r.writer(2)
		r.writes(h)
		r.must("ZADD", rwQueue, "1000000000000001", id("s:3"))
		r.refused(l, time.Millisecond, time.Minute)
		r.must("DEL", "a")
		for range 3 {
			_, _ = r.Probe(ctx0, []*Ref{l})
		}
		require.Contains(t, r.hash("a"), l.ID)
	})
}
