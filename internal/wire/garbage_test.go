package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An entry with garbage in it, which comes first by its score, costs a grant timeout at most: the hold before it ends,
// also if the lock is left to Redisson, and nobody has the lock for good.
func TestEntryOfGarbageCostsAGrantTimeoutAtMost(t *testing.T) {
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
					for _, score := range []string{"0.5", "5", "-5"} {
						for _, k := range []Kind{Fair, Write, Read} {
							r.garbageCostsAGrantTimeout(k, score, garbage)
						}
						r.garbageCostsAGrantTimeout(Write, score, written)
					}
					r.listen(sessionChannel, plainChannel, rwChannel) // for the second time
				}
			})
		})
	}
}

func (r *rig) garbageCostsAGrantTimeout(k Kind, score, garbage string) {
	r.t.Helper()
	h, l, queue := r.lease(k, 1), r.lease(k, 2), queueOfKind(k)
	r.must("FLUSHALL")
	r.take(h)
	r.must("ZADD", queue, score, garbage)
	_, err := r.Release(ctx0, h)
	require.NoError(r.t, err)
	require.NotContains(r.t, r.hash("a"), h.ID, "the hold has not ended")
	r.must("DEL", "a")
	r.must("ZADD", queue, score, garbage)
	r.asks(l)
	if r.hash("a")[l.ID] == "" && r.int("EXISTS", "a") == 1 {
		require.Positive(r.t, r.pttl("a"), "nothing ends what the garbage has")
		require.LessOrEqual(r.t, r.pttl("a"), GrantMost)
	}
}

// Garbage before others that wait, and before one that is absent, is removed. Only Redisson's score may be negative.
func TestGarbageBeforeWaitersIsRemoved(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present("b")
		r.take(r.lease(Fair, 1))
		r.must("ZADD", plainQueue, "1", "garbage", "2", session("b")+":x", "3", " ", "4", "", "-5", id("b:2"))
		absent, b := of("a", r.lease(Fair, 1)), of("b", r.lease(Fair, 1))
		r.queues(absent, b)
		r.end(r.lease(Fair, 1))
		r.held(b)
		r.mustQueue(plainQueue)
	})
}

// Garbage among many readers that are let in: the writer's hold ends.
func TestGarbageBehindManyReaders(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		w := r.writer(1)
		r.take(w)
		for n := range 1001 {
			r.must("ZADD", readQueue, fmt.Sprint(n+1), id(fmt.Sprint("s:", n+2)))
		}
		r.must("ZADD", readQueue, "1.5", " x", "9999", "garbage")
		r.end(w)
		hash := r.hash("a")
		require.NotContains(t, hash, w.ID)
		require.Equal(t, "read", hash["mode"])
	})
}

// A reader among the writers is not granted the lock for good, and a writer comes after it.
func TestReaderAmongTheWritersBlocksNobody(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		l := r.writer(2)
		r.take(r.writer(1))
		r.must("ZADD", writeQueue, "5", id("s:3"))
		r.queues(l)
		for range 3 {
			if r.hash("a")[l.ID] == "" {
				r.must("DEL", "a")
				r.polls(l)
			}
		}
		require.Contains(t, r.hash("a"), l.ID)
	})
}

// One entry with an endless score does not end the order of arrival: those with large session ids starved.
func TestEntryAtInfinityDoesNotEndTheOrder(t *testing.T) {
	r := newRig(t) // the scores of miniredis have no such values
	r.present("a", "c")
	for _, score := range []string{"inf", "1e300"} {
		for _, k := range []Kind{Fair, Write} {
			r.must("FLUSHALL")
			h, c, a := r.lease(k, 1), of("c", r.lease(k, 2)), of("a", r.lease(k, 3))
			r.take(h)
			r.must("ZADD", queueOfKind(k), score, "garbage:write")
			r.queues(c, a)
			r.end(h)
			r.held(c)
		}
	}
}

// Somebody deletes a lock that was just granted. Redisson may have it meanwhile.
func TestReleaseOfAGrantThatHasEndedFindsNothing(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
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
		next := r.present("s", "b")
		b := of("b", r.reader(3))
		r.take(r.writer(1))
		r.queues(r.reader(2), b)
		r.must("DEL", "a")
		r.must("HSET", "a", "mode", "read", "color", "blue")
		_, _ = r.Poll(ctx0, []*Ref{b})
		r.mustMessages(next, sessionChannel)
	})
}

// The first of the queue gives up, which alone polls often while Redisson has the lock: the next takes that over.
func TestNextPollsWhenTheFirstGivesUp(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.present("s")
		for _, k := range []Kind{Fair, Write} {
			r.must("FLUSHALL")
			r.redissonHas(k, 30*time.Second)
			first, second := r.lease(k, 1), r.lease(k, 2)
			r.queues(first, second)
			r.end(first)
			r.mustMessages(next, sessionChannel, polled(second))
		}
	})
}
