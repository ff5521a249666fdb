package wire

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The owner of the write hold may read, and go on reading.
func TestRWDowngradeOnTheWire(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.listen(rwChannel)
		w, a := r.writer(1), r.reader(2)
		r.take(w)
		require.EqualValues(t, ReadJoin, r.under(a, w))
		r.held(w, a)
		require.Zero(t, r.join(a, r.reader(3), false), "nobody may join while it writes")
		r.must("PEXPIRE", timeoutOf("s:2", 1), "10000")
		r.end(w)
		r.held(a)
		r.mustNear("the lock", r.pttl("a"), 10*time.Second)
		theirsWas(r)
		r.reads(r.reader(3), ReadJoin)
		require.EqualValues(t, ReadOther, r.join(a, r.reader(4), false))
		r.end(r.reader(3), a)
		r.mustKeys()

		r.must("DEL", yieldKey)
		r.take(w)
		require.EqualValues(t, ReadJoin, r.under(a, w))
		r.end(a) // the other way round
		r.held(w)
		r.mustNear("the lock", r.pttl("a"), w.Length)
		r.end(w)
		r.mustKeys()
		r.mustMessages(next, rwChannel, rwChannel+" 1", rwChannel+" 00", rwChannel+" 0", rwChannel+" 1", rwChannel+" 00")
	})
}

func TestRWADowngradeLetsReadersIn(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present()
		w, own, next := r.writer(1), r.reader(2), r.writer(5)
		r.take(w)
		r.under(own, w)
		r.queues(r.reader(3), next, r.reader(4))
		r.end(w)
		r.held(own, r.reader(3), r.reader(4))
		r.mustNear("the lock", r.pttl("a"), own.Length)
		r.mustQueue(next)
		r.mustList(3)
		r.end(own)
		r.mustNear("the lock", r.pttl("a"), GrantMost)
		r.end(r.reader(3), r.reader(4))
		r.held(next)
	})
}

// Renewing the write hold shortened the lock, and the reader's hold was over before its lease when the writer had left.
func TestRWTheLockLivesForItsLongestLease(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		long, short, w := r.reader(1), r.reader(2), r.writer(3)
		long.Length, short.Length = time.Hour, 20*time.Second
		r.take(w)
		r.mustNear("written", r.pttl("a"), w.Length)
		require.EqualValues(t, ReadJoin, r.under(long, w))
		r.mustNear("read under it", r.pttl("a"), time.Hour)
		r.take(w)
		r.mustNear("asked again", r.pttl("a"), time.Hour)
		r.renews(w)
		r.mustNear("renewed", r.pttl("a"), time.Hour)
		r.end(w)
		r.reads(short, ReadJoin)
		r.renews(short)
		r.mustNear("read beside it", r.pttl("a"), time.Hour)
		r.end(long)
		r.mustNear("the long one has left", r.pttl("a"), short.Length)
		r.redissonReads(id("j:1"), 3, time.Minute)
		r.must("PEXPIRE", timeoutOf("j:1", 2), "120000")
		r.end(short)
		r.mustNear("the longest of several", r.pttl("a"), 2*time.Minute)
	})
}

// Redisson counts the holds of a reader, and each has a lease of its own.
func TestRWReadersOfRedisson(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		a, w := r.reader(1), r.writer(2)
		r.redissonReads(id("j:7"), 3, 10*time.Second)
		r.refused(w, 0, 10*time.Second)
		r.must("DEL", rwQueue)
		r.reads(a, ReadJoin)
		r.mustRead(map[string]string{id("j:7"): "3", id("s:1"): "1"})
		r.must("DEL", timeoutOf("j:7", 1), timeoutOf("j:7", 2))
		r.end(a)
		r.mustRead(map[string]string{id("j:7"): "3"}) // the third hold goes on
		r.refused(w, 0, 10*time.Second)
		r.must("DEL", rwQueue)
		r.reads(a, ReadJoin)
		r.must("DEL", timeoutOf("j:7", 3))
		r.end(a)
		r.take(w) // nobody is left
		r.held(w)
	})
}

// The lease of one reader ends although another one keeps the lock alive.
func TestRWAWriterRemovesDeadReaders(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		a, w := r.reader(1), r.writer(2)
		r.redissonReads(id("j:7"), 2, 10*time.Second)
		r.reads(r.reader(3), ReadJoin)
		r.reads(a, ReadJoin)
		r.must("DEL", timeoutOf("j:7", 1), timeoutOf("j:7", 2), timeoutOf("s:3", 1))
		r.refused(w, time.Second, time.Minute)
		r.held(a)
		r.gone(r.reader(3))
		r.end(a, w)
		w = r.writer(4)
		r.take(w)

		// Also a reader whose release finds only dead ones beside itself opens the lock.
		r.end(w)
		r.redissonReads(id("j:7"), 2, 10*time.Second)
		r.reads(a, ReadJoin)
		r.must("DEL", timeoutOf("j:7", 1), timeoutOf("j:7", 2))
		next := r.listen(rwChannel)
		r.end(a)
		r.mustKeys()
		r.mustMessages(next, rwChannel, rwChannel+" 0")
	})
}

// A process with Redisson 3.x that holds several read locks renews the keys of one of them, and of the others the lock
// alone. Relock took those readers for dead, so that its writer got in beside them.
func TestRWReadersOfRedissonLiveWithoutTheirKeys(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		a, w := r.reader(1), r.writer(2)
		refused := func(ttl time.Duration) {
			t.Helper()
			r.refused(w, 0, ttl)
			r.must("ZREM", rwQueue, w.ID)
		}
		r.redissonReads(id("j:7"), 1, 10*time.Second)
		r.must("DEL", timeoutOf("j:7", 1))
		refused(10 * time.Second)

		// Relock's readers prolong the lock for themselves alone.
		r.reads(a, ReadJoin)
		refused(30 * time.Second)
		r.renews(a)
		refused(30 * time.Second)
		r.end(a)
		r.mustRead(map[string]string{id("j:7"): "1"})
		refused(10 * time.Second)

		// Whichever renews last, and whichever lease is longer.
		for _, lease := range []time.Duration{20 * time.Second, time.Minute} {
			for _, own := range []func(){func() {}, func() { r.renews(a) }} {
				r.redissonRenews(lease)
				r.reads(a, ReadJoin)
				r.redissonRenews(lease)
				own()
				r.end(a)
				refused(lease)
				r.mustRead(map[string]string{id("j:7"): "1"})
			}
		}
	})
}

// A writer of Redisson that reads as well, and then stops writing.
func TestRWWritersOfRedisson(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.redissonHas(Write, time.Minute)
		r.queues(r.reader(1), r.writer(2))
		r.must("HSET", "a", redissonID, "1")
		r.must("SET", "{a}:"+redissonID+":rwlock_timeout:1", "1", "PX", "60000")
		r.queues(r.reader(1))
		r.must("HDEL", "a", redissonID+":write")
		r.must("HSET", "a", "mode", "read")
		r.must("DEL", rwQueue, yieldKey)
		r.reads(r.reader(1), ReadJoin)
		r.mustRead(map[string]string{redissonID: "1", id("s:1"): "1"})
	})
}

// Somebody else has opened the lock, and readers of Redisson have it now, as many as the
// list has of the readers before them.
func TestRWAListOfReadersBeforeMisleadsNobody(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, opened := range [][]string{{"a"}, {"a", timeoutOf("s:1", 1)}} {
			r.must("FLUSHALL")
			old, a, w := r.reader(1), r.reader(2), r.writer(3)
			r.reads(old, ReadJoin)
			r.must(append([]string{"DEL"}, opened...)...)
			r.redissonReads(id("j:7"), 1, time.Minute)
			r.mustList(1)
			r.refused(w, 0, time.Minute)
			r.must("DEL", rwQueue)
			r.reads(a, ReadJoin)
			r.mustList(1)
			r.gone(old)
			r.end(a)
			r.mustRead(map[string]string{id("j:7"): "1"})
			r.mustNear("the lock", r.pttl("a"), time.Minute)
			r.refused(w, 0, time.Minute)
			// Without its key it lives as long as what it has made of the lock's expiry.
			r.must("DEL", rwQueue, timeoutOf("j:7", 1))
			r.redissonRenews(20 * time.Second)
			r.reads(a, ReadJoin)
			r.end(a)
			r.refused(w, 0, 20*time.Second)
			r.mustRead(map[string]string{id("j:7"): "1"})
		}
	})
}

// A list that was lost is there again when a reader has entered and the others have
// renewed their leases.
func TestRWALostListIsMadeAgain(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		long, a, b, w := r.reader(1), r.reader(2), r.reader(3), r.writer(4)
		long.Length = time.Hour
		r.reads(long, ReadJoin)
		r.reads(a, ReadJoin)
		r.must("DEL", rwReaders)
		r.renews(a, long)
		r.mustList(0) // in another node it may be there yet
		r.end(a)
		r.mustNear("the lock", r.pttl("a"), time.Hour)
		r.reads(b, ReadJoin)
		r.mustList(1)
		r.refused(w, 0, time.Hour)
		r.renews(long, b)
		r.mustList(2)
		r.end(long)
		r.mustNear("the lock", r.pttl("a"), b.Length)
		r.end(b)
		r.mustList(0)
		r.take(w)
	})
}

// Most readers with a longer lease than those before did not prolong the list. When it had
// expired they counted as readers of Redisson, for whom the lock is left free.
func TestRWListLivesAsLongAsReaders(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for n := 1; n < 10; n++ {
			l := r.reader(n)
			l.Length = time.Duration(n) * time.Minute
			r.reads(l, ReadJoin)
			require.GreaterOrEqual(t, r.pttl(rwReaders), r.pttl("a"), "the list of %d readers", n)
		}
	})
}

// A listed reader whose lease has ended is removed by a writer although others read on.
func TestRWAListedReaderEndsWithItsLease(t *testing.T) {
	r := newRig(t)
	short, a, w := r.reader(1), r.reader(2), r.writer(3)
	short.Length = 20 * time.Millisecond
	r.reads(a, ReadJoin)
	r.reads(short, ReadJoin)
	redistest.Eventually(t, 20*time.Second, "its end", func() bool {
		tries(Write, 3)(r)
		return r.int("HEXISTS", "a", short.ID) == 0
	})
	r.mustList(1)
	r.held(a)
	r.end(a)
	r.take(w)
}

// Permissions that were given before there was a list, and a key of that name that is
// something else, only make readers cost more.
func TestRWReadersDoWithoutTheirList(t *testing.T) {
	server := redistest.Start(t)
	plain := rigOn(t, server.Client(t))
	plain.must("ACL", "SETUSER", "before", "on", ">secret", "+@all", "&*", "~a", "~{a}:*", "~"+fenceKey, "~"+rwQueue)
	limited := rigOn(t, server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "before", "secret" }))
	for _, r := range []*rig{limited, plain} {
		long, a, w := r.reader(1), r.reader(2), r.writer(3)
		long.Length = time.Hour
		r.reads(long, ReadJoin)
		r.reads(a, ReadJoin)
		r.renews(a, long)
		r.refused(w, 0, time.Hour)
		r.end(w, long)
		r.mustNear("the lock", r.pttl("a"), a.Length)
		r.redissonReads(id("j:7"), 1, time.Minute)
		r.end(a)
		r.mustNear("the lock", r.pttl("a"), time.Minute)
		r.must("DEL", "a", timeoutOf("j:7", 1))
		r.take(w)
		r.end(w)
		plain.must("SET", rwReaders, "no list")
	}
}

// Lua unpacks no more than about 8000 values, and no writer got in.
func TestRWAWriterRemovesThousandsOfDeadReaders(t *testing.T) {
	r := newRig(t)
	const dead = 9000
	lock := []string{"HSET", "a", "mode", "read"}
	for n := range dead {
		lock = append(lock, id(fmt.Sprint("dead:", n)), "1")
	}
	r.must(lock...)
	r.must("PEXPIRE", "a", "60000")
	living, w := r.reader(1), r.writer(2)
	r.reads(living, ReadJoin)
	end := strconv.FormatInt(time.Now().Add(30*time.Second).UnixMilli(), 10)
	r.must("PEXPIREAT", "a", end)
	r.must("PEXPIREAT", living.Keys.timeout(living.ID), end)
	r.must("DEL", "{a}:others:rwlock_timeout:1") // so that those without a key are taken for dead
	redistest.Eventually(t, time.Minute, "the dead to be removed", func() bool {
		r.queues(w)
		return r.int("HLEN", "a") == 2
	})
	r.held(living)
	r.end(living)
	r.take(w)
}
