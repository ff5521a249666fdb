package wire

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// redissonsScore returns the score of Redisson's entry; false if there is none.
func (r *rig) redissonsScore(queue string) (int64, bool) {
	r.t.Helper()
	text := r.text("ZSCORE", queue, "redisson")
	score, err := strconv.ParseFloat(text, 64)
	return int64(score), err == nil
}

// serverTime returns the server's time in µs.
func (r *rig) serverTime() int64 {
	r.t.Helper()
	now := r.texts("TIME")
	s, _ := strconv.ParseInt(now[0], 10, 64)
	us, _ := strconv.ParseInt(now[1], 10, 64)
	return s*1000000 + us
}

// A subscriber of Redisson's channel is one entry of the queue. When it comes first the lock is left free, Redisson is
// told, and the first waiter polls.
func TestRedissonIsOneEntryOfTheQueue(t *testing.T) {
	t.Parallel()
	for k, channel := range map[Kind]string{Plain: plainChannel, Write: rwChannel} {
		r := newRig(t)
		messages := []string{channel + " 0"}
		if k == Write {
			messages = []string{channel + " 1", channel + " 00"}
		}
		told := r.listen(channel)
		next, queue := r.present("a"), queueOfKind(k)
		hold, first, second := r.lease(k, 1), of("a", r.lease(k, 2)), of("a", r.lease(k, 3))
		r.take(hold)
		r.queues(first)
		r.end(hold)
		r.held(first) // Redisson is behind it
		next()
		queued, ok := r.redissonsScore(queue)
		require.True(t, ok)
		require.InDelta(t, r.serverTime(), queued, 10e6)
		r.queues(second)
		r.mustMessages(told, channel)

		before := r.serverTime()
		r.end(first)
		require.Zero(t, r.int("EXISTS", "a"), "the lock is not left free")
		since, _ := r.redissonsScore(queue)
		require.Negative(t, since)
		require.True(t, -since >= before && -since <= r.serverTime(), "the turn has not begun just now")
		r.mustMessages(told, channel, messages...)
		require.Equal(t, polled(second), next())
		require.Positive(t, r.pttl(queue), "waiters that have all died hold it up")
	}
}

// While it is Redisson's turn others wait, and poll soon. A turn that is not used ends after 100 ms; the next is due a
// second later.
func TestRedissonsTurnIsRespectedAndEnds(t *testing.T) {
	t.Parallel()
	for k, channel := range map[Kind]string{Plain: plainChannel, Fair: plainChannel, Write: rwChannel} {
		r := newRig(t)
		r.listen(channel)
		r.present("a")
		queue, first, late := queueOfKind(k), r.lease(k, 2), r.lease(k, 9)
		r.take(r.lease(k, 1))
		r.queues(first)
		for { // until all of it was in one turn
			r.must("DEL", "a")
			r.must("ZADD", queue, "5", "redisson")
			began := r.serverTime()
			replies := []Reply{r.polls(first), r.asks(r.lease(k, 3)), r.tries(r.lease(k, 4))}
			free := r.int("EXISTS", "a") == 0
			if r.serverTime()-began > 90_000 {
				r.must("ZREM", queue, r.lease(k, 3).ID)
				continue
			}
			for i, reply := range replies {
				require.False(t, reply.Granted, i)
				require.True(t, reply.Theirs, i)
				require.Positive(t, reply.Wait, i)
				require.LessOrEqual(t, reply.Wait, 100*time.Millisecond, i)
			}
			require.True(t, free)
			require.Positive(t, replies[1].Score)
			require.Zero(t, replies[2].Score)
			break
		}
		redistest.Eventually(t, time.Minute, "the end of the turn", func() bool { return r.polls(first).Granted })
		r.held(first)
		due, _ := r.redissonsScore(queue)
		require.InDelta(t, r.serverTime()+1_000_000, due, 900_000)
		require.False(t, r.tries(late).Granted)
	}
}

// After Redisson has had the lock its next turn is due 20 ms later.
func TestRedissonsTurnIsOverOnceItHasHadTheLock(t *testing.T) {
	t.Parallel()
	for k, channel := range map[Kind]string{Plain: plainChannel, Write: rwChannel} {
		for what, see := range map[string]func(r *rig, waits *Ref) Reply{
			"by a poll": func(r *rig, waits *Ref) Reply { return r.polls(waits) },
			"by who queues first": func(r *rig, _ *Ref) Reply {
				r.must("ZREM", queueOfKind(k), r.lease(k, 2).ID)
				return r.asks(r.lease(k, 3))
			},
		} {
			r := newRig(t)
			r.listen(channel)
			queue, waits := queueOfKind(k), r.lease(k, 2)
			r.take(r.lease(k, 1))
			r.queues(waits)
			r.must("DEL", "a")
			turnSince(queue, 0)(r)
			r.redissonHas(k, time.Minute)
			before := r.serverTime()
			require.True(t, see(r, waits).Theirs, "%v %s", k, what)
			due, _ := r.redissonsScore(queue)
			require.True(t, due >= before+20_000 && due <= r.serverTime()+20_000, "%v %s: due %d after %d", k, what, due, before)
			fence := r.text("GET", fenceKey)
			require.Regexp(t, `^\d+ -$`, fence, "the holder before would be taken for one whose lease has run out")
		}
	}
}

// Where nobody listens any more, and where somebody has put it far away, the entry holds up nobody.
func TestRedissonsEntryHoldsUpNobodyWithoutListeners(t *testing.T) {
	t.Parallel()
	for k := range map[Kind]string{Plain: plainChannel, Write: rwChannel} {
		r := newRig(t)
		for what, turn := range map[string]func(r *rig){
			"due": turnSince(queueOfKind(k), -1), "begun": turnSince(queueOfKind(k), 0),
			"later": turnSince(queueOfKind(k), -time.Hour),
		} {
			r.must("FLUSHALL")
			hold, waits := r.lease(k, 1), r.lease(k, 2)
			r.take(hold)
			turn(r)
			r.queues(waits)
			r.end(hold)
			if what == "later" {
				r.held(waits)
			}
			require.True(t, r.polls(waits).Granted, "%v %s", k, what)
			_, ok := r.redissonsScore(queueOfKind(k))
			require.False(t, ok && what != "later", "%v %s: the entry is still there", k, what)
		}
	}
}

// A mark of another clock counts as a turn that is over, or due.
func TestRedissonsEntryOfAnotherClock(t *testing.T) {
	t.Parallel()
	for k, channel := range map[Kind]string{Plain: plainChannel, Write: rwChannel} {
		r := newRig(t)
		r.listen(channel)
		for what, c := range map[string]struct {
			turn    func(r *rig)
			granted bool
		}{
			"a turn that begins in an hour": {runs("ZADD", queueOfKind(k), fmt.Sprint(-(r.serverTime() + 3600e6)), "redisson"), true},
			"a turn of an hour ago":         {turnSince(queueOfKind(k), time.Hour), true},
			"due in an hour":                {turnSince(queueOfKind(k), -time.Hour), false},
		} {
			r.must("FLUSHALL")
			c.turn(r)
			require.Equal(t, c.granted, r.tries(r.lease(k, 1)).Granted, "%v %s", k, what)
		}
	}
}

// A process that is alone with a listener that never comes is not held up after each release.
func TestIdleListenerOfRedissonCostsATurnASecond(t *testing.T) {
	t.Parallel()
	for k, channel := range map[Kind]string{Plain: plainChannel, Write: rwChannel, Read: rwChannel} {
		r := newRig(t)
		r.listen(channel)
		l := r.lease(k, 1)
		r.take(l)
		r.end(l) // the turn begins
		redistest.Eventually(t, time.Minute, "the end of the turn", func() bool { return r.tries(l).Granted })
		for began, n := r.serverTime(), 2; n < 12; n++ {
			r.end(r.lease(k, n-1))
			if r.serverTime()-began > 900_000 {
				break
			}
			require.True(t, r.tries(r.lease(k, n)).Granted, "kind %d, release %d", k, n)
		}
	}
}

// Where listeners cannot be counted, a try takes a free lock in Redisson's turn.
func TestTryTakesAFreeLockWhereListenersCannotBeCounted(t *testing.T) {
	t.Parallel()
	for _, k := range []Kind{Plain, Write} {
		r := newRig(t)
		r.PubSub = ClusterWide
		turnSince(queueOfKind(k), 0)(r)
		require.True(t, r.tries(r.lease(k, 1)).Granted)
	}
}

// Redisson's entry goes to the end when its turn is over. Nobody behind it is skipped for that.
func TestNobodyIsSkippedWhenRedissonsTurnIsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.listen(plainChannel)
	r.present("b")
	l := of("b", r.lease(Plain, 1))
	dead(plainQueue, 1, "")(r)
	r.must("ZADD", plainQueue, fmt.Sprint(-(r.serverTime() - 200_000)), "redisson")
	r.must("ZADD", plainQueue, fmt.Sprint(r.serverTime()), l.ID)
	reply := r.polls(l)
	require.True(t, reply.Granted, "%+v", reply)
	r.held(l)
}
