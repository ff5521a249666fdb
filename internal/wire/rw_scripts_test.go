package wire

import (
	"slices"
	"testing"
	"time"
)

func TestRWWritesWhatRedissonReads(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for name, prefix := range map[string]string{"orders": "{orders}", "{o}rders": "{o}rders", "a b\r\n": "{a b\r\n}"} {
			r.must("FLUSHALL")
			r.name = name
			channel := "redisson_rwlock:" + prefix
			next := r.listen(channel)
			timeout := prefix + ":" + id("s:1") + ":rwlock_timeout:1"

			a, b := r.reader(1), r.writer(2)
			r.reads(a, ReadJoin)
			r.mustHash(map[string]string{"mode": "read", id("s:1"): "1"})
			r.mustNear("the lock's time to live", r.pttl(name), a.Length)
			r.mustNear("the hold's time to live", r.pttl(timeout), a.Length)
			if got := r.text("GET", timeout); got != "1" {
				t.Fatalf("%s is %q", timeout, got)
			}
			if got := r.keys(); len(got) != 3 || !slices.Contains(got, "relock_readers:"+prefix) {
				t.Fatalf("keys %q", got)
			}
			r.end(a)
			r.must("DEL", "relock_yield:"+prefix) // the test listens as Redisson's waiters do
			if got := r.keys(); len(got) != 0 {
				t.Fatalf("keys %q", got)
			}
			r.writes(b)
			r.mustHash(map[string]string{"mode": "write", id("s:2:write"): "1"})
			r.mustNear("the lock's time to live", r.pttl(name), b.Length)
			r.end(b)
			r.must("DEL", "relock_yield:"+prefix)
			if got := r.keys(); len(got) != 1 || got[0] != "relock_fence:"+prefix {
				t.Fatalf("keys %q", got)
			}
			r.mustMessages(next, channel, channel+" 0", channel+" 1", channel+" 00")
		}
	})
}

func TestRWScriptsSentTwice(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		next := r.present()
		a, b, w := r.reader(1), r.reader(2), r.writer(3)
		r.reads(a, ReadJoin)
		r.must("PEXPIRE", "{a}:"+id("s:1")+":rwlock_timeout:1", "15000")
		r.must("PEXPIRE", "a", "16000")
		r.reads(a, ReadJoin)
		r.mustHash(map[string]string{"mode": "read", id("s:1"): "1"})
		r.mustNear("the lease", r.pttl("{a}:"+id("s:1")+":rwlock_timeout:1"), a.Length) // starts again
		r.mustNear("the lock", r.pttl("a"), a.Length)
		r.reads(b, ReadJoin)
		r.refused(w, time.Second, w.Length)
		r.refused(w, time.Second, w.Length)
		r.mustQueue(w)
		r.reads(a, readAlone) // it has the hold, whoever waits
		r.end(a)
		r.gone(a)
		r.mustHash(map[string]string{"mode": "read", id("s:2"): "1"})
		r.end(b)
		r.gone(b)
		r.mustHash(map[string]string{"mode": "write", id("s:3:write"): "1"})
		r.mustNear("the claim", r.pttl("a"), ClaimMost)
		token := r.writes(w)
		r.mustQueue()
		r.must("PEXPIRE", "a", "15000")
		if again := r.writes(w); again != token {
			t.Fatalf("token %d, first %d", again, token)
		}
		r.mustNear("the lock", r.pttl("a"), w.Length)
		r.end(w)
		r.gone(w)
		r.mustKeys()
		r.mustMessages(next, "relock_session:"+session("s"), granted(w, token))
	})
}

// A release that comes late, or twice, finds nobody else's hold.
func TestRWReleaseEndsNothingElse(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.writes(r.writer(1))
		for _, l := range []*Ref{r.writer(2), r.reader(1), r.reader(2)} {
			r.gone(l)
		}
		r.mustHash(map[string]string{"mode": "write", id("s:1:write"): "1"})
		r.end(r.writer(1))
		r.reads(r.reader(1), ReadJoin)
		for _, l := range []*Ref{r.writer(1), r.writer(2), r.reader(2)} {
			r.gone(l)
		}
		r.mustHash(map[string]string{"mode": "read", id("s:1"): "1"})
		r.mustKeys("a", rwReaders, "{a}:"+id("s:1")+":rwlock_timeout:1")
	})
}

func TestRWSidesExcludeEachOther(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		a, w := r.reader(1), r.writer(2)
		last := r.writes(w)
		for _, l := range []*Ref{r.reader(3), r.writer(4)} {
			r.refused(l, time.Second, w.Length)
		}
		if reply, _ := r.rlock(r.reader(5), r.writer(4), false); reply != 0 {
			t.Fatal("read under a write hold that is not there")
		}
		r.mustQueue(r.writer(4), r.reader(3))
		r.must("DEL", rwQueue)
		r.end(w)
		r.reads(a, ReadJoin)
		r.reads(r.reader(3), ReadJoin)
		r.refused(r.writer(4), time.Second, w.Length)
		r.end(a)
		r.refused(r.writer(4), time.Second, w.Length)
		r.end(r.reader(3))
		if token := r.writes(r.writer(4)); token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
	})
}

// The owner of the write hold may read, and go on reading.
func TestRWDowngradeOnTheWire(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		next := r.listen("redisson_rwlock:{a}")
		w, a := r.writer(1), r.reader(2)
		r.writes(w)
		if reply, _ := r.rlock(a, w, false); reply != ReadJoin {
			t.Fatalf("reply %d", reply)
		}
		r.mustHash(map[string]string{"mode": "write", id("s:1:write"): "1", id("s:2"): "1"})
		r.joins(a, r.reader(3), false, 0) // nobody may join while it writes
		r.end(w)
		r.mustHash(map[string]string{"mode": "read", id("s:2"): "1"})
		theirsWas(r)
		r.reads(r.reader(3), ReadJoin)
		r.joins(a, r.reader(4), false, ReadOther)
		r.end(r.reader(3))
		r.end(a)
		r.mustKeys()

		r.must("DEL", rwYield)
		r.writes(w)
		if reply, _ := r.rlock(a, w, false); reply != ReadJoin {
			t.Fatalf("reply %d", reply)
		}
		r.end(a) // the other way round
		r.mustHash(map[string]string{"mode": "write", id("s:1:write"): "1"})
		r.mustNear("the lock", r.pttl("a"), w.Length)
		r.end(w)
		r.mustKeys()
		r.mustMessages(next, "redisson_rwlock:{a}",
			"redisson_rwlock:{a} 1", "redisson_rwlock:{a} 00", "redisson_rwlock:{a} 0",
			"redisson_rwlock:{a} 1", "redisson_rwlock:{a} 00")
	})
}

func TestRWTheLockLivesAsLongAsItsLongestLease(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		long, short, w := r.reader(1), r.reader(2), r.writer(3)
		long.Length, short.Length = time.Hour, 20*time.Second
		r.writes(w)
		r.mustNear("written", r.pttl("a"), w.Length)
		if reply, _ := r.rlock(long, w, false); reply != ReadJoin {
			t.Fatalf("reply %d", reply)
		}
		r.mustNear("read under it", r.pttl("a"), time.Hour)
		r.writes(w)
		r.mustNear("asked again", r.pttl("a"), time.Hour)
		// Regression: renewing the write hold shortened it, and the reader's hold was
		// over before its lease when the writer had left.
		for _, got := range r.Renew(ctx0, []*Ref{w}) {
			if got.Err != nil || got.Gone {
				t.Fatalf("renewed: %+v", got)
			}
		}
		r.mustNear("renewed", r.pttl("a"), time.Hour)
		r.end(w)
		r.reads(short, ReadJoin)
		r.Renew(ctx0, []*Ref{short})
		r.mustNear("read beside it", r.pttl("a"), time.Hour)
		r.end(long)
		r.mustNear("the long one has left", r.pttl("a"), short.Length)
		r.redissonReads(id("j:1"), 3, time.Minute)
		r.must("PEXPIRE", "{a}:"+id("j:1")+":rwlock_timeout:2", "120000")
		r.end(short)
		r.mustNear("the longest of several", r.pttl("a"), 2*time.Minute)
	})
}

func TestRWRenewReportsWhatIsGone(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		var ls []*Ref
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			r.name = name
			l := r.reader(i)
			r.reads(l, ReadJoin)
			r.must("PEXPIRE", name, "15000")
			r.must("PEXPIRE", l.Keys.timeout(l.ID), "15000")
			ls = append(ls, l)
		}
		r.must("DEL", "b")
		r.must("DEL", ls[2].Keys.timeout(ls[2].ID)) // its own lease has ended
		r.must("DEL", "d")
		r.must("SET", "d", "text")
		want := map[string]bool{"b": true, "c": true, "d": true}
		for i, got := range r.Renew(ctx0, ls) {
			name := ls[i].Keys.Name
			if got.Err != nil || got.Gone != want[name] {
				t.Errorf("%s: %+v", name, got)
			}
			if !got.Gone {
				r.mustNear(name, r.pttl(name), ls[i].Length)
				r.mustNear(name, r.pttl(ls[i].Keys.timeout(ls[i].ID)), ls[i].Length)
			}
		}
	})
}

// A dead reader stays in the lock while others read. It has the lock no more, since a writer is let
// in beside it.
func TestRWLookFindsNoReaderWhoseLeaseHasEnded(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		dead, alive := r.reader(1), r.reader(2)
		r.reads(dead, ReadJoin)
		r.reads(alive, ReadJoin)
		r.must("DEL", dead.Keys.timeout(dead.ID))
		r.looksFor(LostPlace, dead)
		r.looksFor(ReadJoin, alive)
		r.end(alive)
	})
}
