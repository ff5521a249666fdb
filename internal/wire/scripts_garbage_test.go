package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A place with garbage in it, which comes next by its score, costs a claim at most: the hold before it ends, also if
// the lock is left to Redisson, and nobody has the lock for good.
func TestPlaceOfGarbageCostsAClaimAtMost(t *testing.T) {
	for _, garbage := range []string{
		"", " x", "x", "x:y z", "garbage", session("z") + ":1 ", session("z") + ":1 99999999999999999999",
		session("z") + ":1 99999999999",
	} {
		written := strings.Replace(garbage, ":1", ":1:write", 1)
		if written == garbage {
			written += ":write"
		}
		t.Run(fmt.Sprintf("%q", garbage), func(t *testing.T) {
			onRigs(t, func(t *testing.T, r *rig) {
				for range 2 {
					for _, score := range []string{"0.5", "5"} {
						r.garbageCostsAClaim(Fair, score, garbage)
						r.garbageCostsAClaim(Write, score, garbage)
						r.garbageCostsAClaim(Write, score, written)
					}
					r.present(plainChannel, rwChannel) // for the second time
				}
			})
		})
	}
}

func (r *rig) garbageCostsAClaim(k Kind, score, garbage string) {
	r.t.Helper()
	h, l := r.lease(k, 1), r.lease(k, 2)
	r.must("FLUSHALL")
	r.take(h)
	r.must("ZADD", h.Keys.aux, score, garbage)
	_, err := r.Release(ctx0, h)
	require.NoError(r.t, err)
	require.NotContains(r.t, r.hash("a"), h.ID, "the hold has not ended")
	r.must("DEL", "a")
	r.must("ZADD", h.Keys.aux, score, garbage)
	_, _, err = r.try(l, true)
	require.NoError(r.t, err)
	if r.hash("a")[l.ID] == "" && r.int("EXISTS", "a") == 1 {
		require.Positive(r.t, r.pttl("a"), "nothing ends what the garbage has")
		require.LessOrEqual(r.t, r.pttl("a"), GrantMost)
	}
}

// Garbage before those who wait, and before one who is absent.
func TestGarbageBeforeWaitersIsRemoved(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.comes("b")
		r.enters("h:1")
		r.must("ZADD", plainQueue, "1", "garbage", "2", session("b")+":x", "3", " ", "4", "")
		r.enters("a:1", "b:1")
		releases(r, r.of("h:1"))
		r.mustHave("b:1", "-a:1")
	})
}

// Garbage among many readers who are let in: the writer's hold ends.
func TestGarbageBehindAHundredReaders(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present()
		w := r.writer(1)
		r.take(w)
		for n := range 100 {
			r.must("ZADD", rwQueue, fmt.Sprint(4000000000000001+n), id(fmt.Sprint("s:", n+2)))
		}
		r.must("ZADD", rwQueue, "4000000000009999", " x")
		ends(Write, 1)(r)
		require.NotContains(t, r.hash("a"), w.ID)
	})
}

// A reader among the writers was neither granted the lock as a writer nor let in as a reader, and nobody came after it.
func TestReaderAmongTheWritersBlocksNobody(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present()
		l := r.writer(2)
		r.take(r.writer(1))
		r.must("ZADD", rwQueue, "1000000000000001", id("s:3"))
		r.queues(l)
		r.must("DEL", "a")
		for range 3 {
			_, _ = r.Poll(ctx0, []*Ref{l})
		}
		require.Contains(t, r.hash("a"), l.ID)
	})
}

// One place with an endless score does not end the order of arrival: those with large session ids starved.
func TestPlaceAtInfinityDoesNotEndTheOrder(t *testing.T) {
	r := newRig(t) // the scores of miniredis have no such values
	next := r.listen(PrefixSession+session("c"), PrefixSession+session("a"))
	for _, score := range []string{"inf", "1e300"} {
		for _, k := range []Kind{Fair, Write} {
			r.must("FLUSHALL")
			h, c, a := r.lease(k, 1), of("c", r.lease(k, 2)), of("a", r.lease(k, 3))
			r.take(h)
			r.must("ZADD", h.Keys.aux, score, "garbage:write")
			r.queues(c, a)
			r.end(h)
			require.Contains(t, next(), PrefixSession+session("c")+" granted", "the order of arrival")
		}
	}
}

// Somebody deletes the lock whose claim is not confirmed yet; Redisson may have it meanwhile.
func TestReleaseOfALapsedClaimFindsNothing(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present()
		for _, k := range []Kind{Fair, Write} {
			r.must("FLUSHALL")
			h, l := r.lease(k, 1), r.lease(k, 2)
			r.take(h)
			r.queues(l)
			r.end(h)
			r.held(l)
			r.must("DEL", "a")
			redissonHas(r)
			r.gone(l)
		}
	})
}

// The lock became an application's hash in read mode while readers queue: none is told that it reads.
func TestReadersAreNotLetIntoAnApplicationsHash(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.present()
		b := of("b", r.reader(3))
		r.take(r.writer(1))
		r.queues(r.reader(2), b)
		r.must("DEL", "a")
		r.must("HSET", "a", "mode", "read", "color", "blue")
		_, _ = r.Poll(ctx0, []*Ref{b})
		r.mustMessages(next, sessionChannel)
	})
}

// The first of the queue gives up, who alone polls a lock that Redisson has: the next takes its part, also beside
// places that stand back.
func TestNextLooksWhenTheFirstGivesUp(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.present()
		for _, k := range []Kind{Fair, Write} {
			for _, dead := range []bool{false, true} {
				r.must("FLUSHALL")
				r.redissonHas(k, 30*time.Second)
				first, second := r.lease(k, 1), r.lease(k, 2)
				r.queues(first, second)
				if dead {
					r.must("ZADD", first.Keys.aux, "-5", session("z")+":1")
				}
				r.end(first)
				r.mustMessages(next, sessionChannel, sessionChannel+" look "+second.ID)
			}
		}
	})
}
