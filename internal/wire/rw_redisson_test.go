package wire

import (
	"testing"
	"time"
)

// Redisson counts the holds of a reader, and each has a lease of its own.
func TestRWReadersOfRedisson(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		a, w := r.reader(1), r.writer(2)
		r.redissonReads(id("j:7"), 3, 10*time.Second)
		r.refused(w, 0, 10*time.Second)
		r.must("DEL", rwQueue)
		r.reads(a, ReadJoin)
		r.mustHash(map[string]string{"mode": "read", id("j:7"): "3", id("s:1"): "1"})
		r.must("DEL", "{a}:"+id("j:7")+":rwlock_timeout:1", "{a}:"+id("j:7")+":rwlock_timeout:2")
		r.end(a)
		r.mustHash(map[string]string{"mode": "read", id("j:7"): "3"}) // the third hold goes on
		r.refused(w, 0, 10*time.Second)
		r.must("DEL", rwQueue)
		r.reads(a, ReadJoin)
		r.must("DEL", "{a}:"+id("j:7")+":rwlock_timeout:3")
		r.end(a)
		r.writes(w) // nobody is left
		r.mustHash(map[string]string{"mode": "write", id("s:2:write"): "1"})
		r.end(w)
	})
}

// The lease of one reader ends although another one keeps the lock alive.
func TestRWAWriterRemovesDeadReaders(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		a, w := r.reader(1), r.writer(2)
		r.redissonReads(id("j:7"), 2, 10*time.Second)
		r.reads(r.reader(3), ReadJoin)
		r.reads(a, ReadJoin)
		r.must("DEL", "{a}:"+id("j:7")+":rwlock_timeout:1", "{a}:"+id("j:7")+":rwlock_timeout:2", "{a}:"+id("s:3")+":rwlock_timeout:1")
		r.refused(w, time.Second, time.Minute)
		r.mustHash(map[string]string{"mode": "read", id("s:1"): "1"})
		r.gone(r.reader(3))
		r.end(a)
		r.end(w)
		w = r.writer(4)
		r.writes(w)

		// Also a reader whose release finds only dead ones beside itself opens the lock.
		r.end(w)
		r.redissonReads(id("j:7"), 2, 10*time.Second)
		r.reads(a, ReadJoin)
		r.must("DEL", "{a}:"+id("j:7")+":rwlock_timeout:1", "{a}:"+id("j:7")+":rwlock_timeout:2")
		next := r.listen("redisson_rwlock:{a}")
		r.end(a)
		r.mustKeys()
		r.mustMessages(next, "redisson_rwlock:{a}", "redisson_rwlock:{a} 0")
	})
}

// A process with Redisson 3.x that holds several read locks renews the keys of one of
// them, and of the others the lock alone. Relock took those readers for dead, so that
// its writer got in beside them.
func TestRWReadersOfRedissonLiveWithoutTheirKeys(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		a, w := r.reader(1), r.writer(2)
		reading := map[string]string{"mode": "read", id("j:7"): "1"}
		refused := func(ttl time.Duration) {
			t.Helper()
			r.refused(w, 0, ttl)
			r.must("ZREM", rwQueue, w.ID)
		}

		r.redissonReads(id("j:7"), 1, 10*time.Second)
		r.must("DEL", "{a}:"+id("j:7")+":rwlock_timeout:1")
		refused(10 * time.Second)

		// Relock's readers prolong the lock for themselves alone.
		r.reads(a, ReadJoin)
		refused(30 * time.Second)
		r.renews(a)
		refused(30 * time.Second)
		r.end(a)
		r.mustHash(reading)
		refused(10 * time.Second)

		// Whichever renews last, and whichever lease is longer.
		for _, lease := range []time.Duration{20 * time.Second, time.Minute} {
			r.redissonRenews(lease)
			r.reads(a, ReadJoin)
			r.redissonRenews(lease)
			r.end(a)
			refused(lease)
			r.reads(a, ReadJoin)
			r.redissonRenews(lease)
			r.renews(a)
			r.end(a)
			refused(lease)
			r.mustHash(reading)
		}
	})
}

// A writer that reads too, and stops writing, leaves the lock the lease of its readers.
func TestRWADowngradedLockHasTheLeaseOfItsReaders(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		a, w := r.reader(1), r.writer(2)
		r.writes(w)
		if reply, _ := r.rlock(a, w, false); reply != ReadJoin {
			t.Fatalf("reply %d", reply)
		}
		r.must("PEXPIRE", "{a}:"+id("s:1")+":rwlock_timeout:1", "10000")
		r.end(w)
		r.mustHash(map[string]string{"mode": "read", id("s:1"): "1"})
		r.mustNear("the lock", r.pttl("a"), 10*time.Second)
	})
}

func TestRWWritersOfRedisson(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.redissonWrites(id("j:7"), 2, time.Minute)
		r.refused(r.reader(1), 0, time.Minute)
		r.refused(r.writer(2), 0, time.Minute)
		r.mustHash(map[string]string{"mode": "write", id("j:7:write"): "2"})
		// It reads as well, and then stops writing.
		r.must("HSET", "a", id("j:7"), "1")
		r.must("SET", "{a}:"+id("j:7")+":rwlock_timeout:1", "1", "PX", "60000")
		r.refused(r.reader(1), 0, time.Minute)
		r.must("HDEL", "a", id("j:7:write"))
		r.must("HSET", "a", "mode", "read")
		r.must("DEL", rwQueue)
		r.reads(r.reader(1), ReadJoin)
		r.mustHash(map[string]string{"mode": "read", id("j:7"): "1", id("s:1"): "1"})
	})
}

// A Mutex of that name, and a plain lock of Redisson, exclude both sides.
func TestRWALockOfAnotherKindIsHeld(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		m := plainLease("a", 1)
		r.take(m)
		r.refused(r.reader(2), time.Second, m.Length)
		r.refused(r.writer(3), time.Second, m.Length)
		for _, l := range []*Ref{r.reader(2), r.writer(3)} {
			r.end(l) // its place
		}
		r.mustHash(map[string]string{id("s:1"): "1"})
		r.mustNear("the Mutex", r.pttl("a"), m.Length)
		r.end(m)
		for _, l := range []*Ref{r.reader(2), r.writer(3)} {
			if l.Kind == Read {
				r.reads(l, ReadJoin)
			} else {
				r.writes(l)
			}
			if token, ttl, err := r.ask(m); token != 0 || ttl < time.Second || err != nil {
				t.Fatalf("a Mutex got %d, %v, %v", token, ttl, err)
			}
			r.end(l)
		}
		r.take(m)
	})
}

// Without an expiry, which nobody sets but a person, the wait has no bound.
func TestRWALockWithoutExpiry(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.must("HSET", "a", id("x:1"), "1")
		for _, l := range []*Ref{r.reader(1), r.writer(2)} {
			r.refused(l, -time.Millisecond, -time.Millisecond)
		}
	})
}

// A holder may have both sides; its session gets a message for each, and waiters are woken.
func TestRWForceNotifiesEveryHolder(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		const rwChannel = "redisson_rwlock:{a}"
		next := r.listen(rwChannel, "relock_session:"+session("s"), "relock_session:"+session("j"))
		r.reads(r.reader(1), ReadJoin)
		r.redissonReads(id("j:7"), 2, time.Minute)
		if was, err := r.Force(ctx0, "a"); !was || err != nil {
			t.Fatalf("force = %t, %v", was, err)
		}
		told := map[string]bool{next(): true, next(): true}
		if !told["relock_session:"+session("s")+" lost "+id("s:1")+" a"] || !told["relock_session:"+session("j")+" lost "+id("j:7")+" a"] {
			t.Fatalf("told %v", told)
		}
		r.mustMessages(next, rwChannel, rwChannel+" 1", rwChannel+" 00")
		r.must("DEL", rwYield)
		w := r.writer(2)
		r.writes(w)
		if reply, _ := r.rlock(r.reader(3), w, false); reply != ReadJoin {
			t.Fatalf("reply %d", reply)
		}
		in, err := r.Inspect(ctx0, "a")
		if err != nil || in.Fields[id("s:2:write")] != 1 || in.Fields[id("s:3")] != 1 || in.Fields["mode"] != 0 {
			t.Fatalf("inspect = %+v, %v", in, err)
		}
		if was, err := r.Force(ctx0, "a"); !was || err != nil {
			t.Fatalf("force = %t, %v", was, err)
		}
		told = map[string]bool{next(): true, next(): true}
		if !told["relock_session:"+session("s")+" lost "+id("s:2")+" a"] || !told["relock_session:"+session("s")+" lost "+id("s:3")+" a"] {
			t.Fatalf("told %v", told)
		}
		r.mustMessages(next, rwChannel, rwChannel+" 1", rwChannel+" 00")
	})
}
