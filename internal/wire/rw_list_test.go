package wire

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/redistest"
)

// mustList checks how many readers the list has.
func (r *rwRig) mustList(want int64) {
	r.t.Helper()
	if got := r.int("ZCARD", rwReaders); got != want {
		r.t.Fatalf("the list has %d readers, want %d", got, want)
	}
}

// readsLike takes the read side as a version of relock does that keeps no list.
func (r *rwRig) readsLike(id string, lease time.Duration) { r.redissonReads(id, 1, lease) }

// Somebody else has opened the lock, and readers of Redisson have it now, as many as the
// list has of the readers before them.
func TestRWAListOfReadersBeforeMisleadsNobody(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for _, opens := range []func(){
			func() { r.must("DEL", "a") },
			func() { r.must("DEL", "a", "{a}:"+id("s:1")+":rwlock_timeout:1") },
		} {
			r.must("FLUSHALL")
			old, a, w := r.reader(1), r.reader(2), r.writer(3)
			r.reads(old, ReadJoin)
			opens()
			r.redissonReads(id("j:7"), 1, time.Minute)
			r.mustList(1)
			r.refused(w, 0, time.Minute)
			r.must("DEL", rwQueue)
			r.reads(a, ReadJoin)
			r.mustList(1)
			r.gone(old)
			r.end(a)
			r.mustHash(map[string]string{"mode": "read", id("j:7"): "1"})
			r.mustNear("the lock", r.pttl("a"), time.Minute)
			r.refused(w, 0, time.Minute)
			// Without its key it lives as long as what it has made of the lock's expiry.
			r.must("DEL", rwQueue, "{a}:"+id("j:7")+":rwlock_timeout:1")
			r.redissonRenews(20 * time.Second)
			r.reads(a, ReadJoin)
			r.end(a)
			r.refused(w, 0, 20*time.Second)
			r.mustHash(map[string]string{"mode": "read", id("j:7"): "1"})
		}
	})
}

func TestRWReadersThatAreNotListedCountAsLiving(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		a, b, w := r.reader(1), r.reader(2), r.writer(3)
		r.readsLike(id("u:1"), time.Minute)
		r.reads(a, ReadJoin)
		r.reads(b, ReadJoin)
		r.mustList(2)
		r.renews(a, b)
		r.end(a)
		r.mustNear("the lock", r.pttl("a"), time.Minute)
		r.end(b)
		r.mustList(0)
		r.mustHash(map[string]string{"mode": "read", id("u:1"): "1"})
		r.mustNear("the lock", r.pttl("a"), time.Minute)
		r.refused(w, 0, time.Minute)
	})
}

// A list that was lost is there again when a reader has entered and the others have
// renewed their leases.
func TestRWAListThatWasLostIsMadeAgain(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
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
		r.writes(w)
	})
}

// Regression: most readers with a longer lease than those before did not prolong the list. When it had
// expired they counted as readers of Redisson, for whom the lock is left free.
func TestRWTheListLivesAsLongAsItsReaders(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for n := 1; n < 10; n++ {
			l := r.reader(n)
			l.Length = time.Duration(n) * time.Minute
			r.reads(l, ReadJoin)
			if left := r.pttl(rwReaders); left < r.pttl("a") {
				t.Fatalf("the list of %d readers lives for %v", n, left)
			}
		}
	})
}

// A listed reader whose lease has ended is removed by a writer although others read on.
func TestRWAListedReaderEndsWithItsLease(t *testing.T) {
	r := &rwRig{NewRig(t), "a"}
	short, a, w := r.reader(1), r.reader(2), r.writer(3)
	short.Length = 20 * time.Millisecond
	r.reads(a, ReadJoin)
	r.reads(short, ReadJoin)
	redistest.Eventually(t, 20*time.Second, "its end", func() bool {
		r.lock(w, false)
		return r.int("HEXISTS", "a", short.ID) == 0
	})
	r.mustList(1)
	r.mustHash(map[string]string{"mode": "read", a.ID: "1"})
	r.end(a)
	r.writes(w)
}

// Permissions that were given before there was a list, and a key of that name that is
// something else, only make readers cost more.
func TestRWReadersDoWithoutTheirList(t *testing.T) {
	server := redistest.Start(t)
	plain := &rwRig{rigOn(t, server.Client(t)), "a"}
	plain.must("ACL", "SETUSER", "before", "on", ">secret", "+@all", "&*",
		"~a", "~{a}:*", "~relock_fence:{a}", "~relock_rwqueue:{a}")
	limited := &rwRig{rigOn(t, server.Client(t, func(o *rueidis.ClientOption) {
		o.Username, o.Password = "before", "secret"
	})), "a"}
	without := func(r *rwRig) {
		long, a, w := r.reader(1), r.reader(2), r.writer(3)
		long.Length = time.Hour
		r.reads(long, ReadJoin)
		r.reads(a, ReadJoin)
		r.renews(a, long)
		r.refused(w, 0, time.Hour)
		r.end(w)
		r.end(long)
		r.mustNear("the lock", r.pttl("a"), a.Length)
		r.redissonReads(id("j:7"), 1, time.Minute)
		r.end(a)
		r.mustNear("the lock", r.pttl("a"), time.Minute)
		r.must("DEL", "a", "{a}:"+id("j:7")+":rwlock_timeout:1")
		r.writes(w)
		r.end(w)
	}
	without(limited)
	plain.must("SET", rwReaders, "no list")
	without(plain)
}
