package wire

import (
	"fmt"
	"testing"
	"time"
)

func TestRWAWaitingWriterStopsNewReadersOnly(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		a, w := r.reader(1), r.writer(2)
		r.reads(a, ReadJoin)
		r.lock(r.writer(9), false) // does not wait, and so stops nobody
		r.mustIntend()
		r.refused(w, time.Second, w.Length)
		r.refused(r.reader(3), time.Millisecond, IntentValid)
		if ttl := r.confirms(a, r.reader(4), true, 0); ttl <= 0 || ttl > IntentValid {
			t.Fatalf("told to wait %v", ttl)
		}
		r.reads(a, readAlone)
		r.mustIntend("w:"+id("s:2:write"), "r:"+id("s:3"), "r:"+id("s:4"))
		if ttl := r.pttl(rwIntents); ttl < IntentValid || ttl > 2*IntentValid {
			t.Fatalf("the intents expire in %v", ttl)
		}

		// It gives up: everybody is told, and may enter.
		next := r.listen("redisson_rwlock:{a}")
		r.gone(w)
		r.gone(w)
		r.mustMessages(next, "redisson_rwlock:{a}", "redisson_rwlock:{a} 1", "redisson_rwlock:{a} 00")
		r.confirms(a, r.reader(4), true, ReadJoin)
		r.reads(r.reader(3), ReadJoin)
		r.mustIntend()

		// A reader that gives up takes its intent along.
		r.refused(w, time.Second, w.Length)
		r.refused(r.reader(5), time.Millisecond, IntentValid)
		r.gone(r.reader(5))
		r.mustIntend("w:" + id("s:2:write"))
	})
}

// Readers that waited for a writer enter before the next one, all of them.
func TestRWTheReadersTurn(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		w, next := r.writer(1), r.writer(2)
		r.writes(w)
		r.refused(next, time.Second, w.Length)
		for n := 3; n <= 5; n++ {
			r.refused(r.reader(n), time.Second, w.Length)
		}
		r.end(w)
		left := r.intentsLeft()["turn"]
		if left > readersTurn || left < readersTurn-10*time.Second {
			t.Fatalf("the turn lasts %v", left)
		}
		r.prolongTurn() // for a machine that is slow
		for n := 3; n <= 4; n++ {
			r.refused(next, time.Millisecond, 40*time.Second) // the lock is free
			r.reads(r.reader(n), readAlone)
			r.end(r.reader(n))
		}
		r.reads(r.reader(6), readAlone) // who comes now may enter, too
		r.confirms(r.reader(6), r.reader(7), false, readAlone)
		r.reads(r.reader(5), readAlone) // the last that waited
		r.mustIntend("w:" + id("s:2:write"))
		r.refused(r.reader(8), time.Millisecond, IntentValid)
		r.confirms(r.reader(6), r.reader(7), false, 0)
		r.end(r.reader(5))
		r.end(r.reader(6))
		r.writes(next)
		r.mustIntend("r:" + id("s:8"))
		r.end(next)
		r.reads(r.reader(8), ReadJoin)
		r.mustKeys("a", rwReaders, "{a}:"+id("s:8")+":rwlock_timeout:1")
	})
}

func (r *rwRig) prolongTurn() {
	r.t.Helper()
	m := r.must("TIME")
	now, err := m.AsIntSlice()
	if err != nil {
		r.t.Fatal(err)
	}
	r.must("HSET", rwIntents, "turn", fmt.Sprint(now[0]*1000+40_000))
}

// Nobody comes: the next writer waits no longer than the turn.
func TestRWTheReadersTurnEnds(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		w, next := r.writer(1), r.writer(2)
		r.writes(w)
		r.refused(r.reader(3), time.Second, w.Length)
		r.end(w)
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if token, _ := r.lock(next, true); token > 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("it never gets in")
			}
		}
		r.mustIntend("r:" + id("s:3"))
		r.end(next)
	})
}

// Intents end by themselves, and so does what a clock that was set back leaves behind.
func TestRWIntentsThatAreOverStopNobody(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		now := r.must("TIME")
		at, err := now.AsIntSlice()
		if err != nil {
			t.Fatal(err)
		}
		for what, ms := range map[string]int64{
			"over": at[0]*1000 - 1, "in an hour": at[0]*1000 + 3600_000, "nonsense": -1,
		} {
			for _, kind := range []string{"w:", "r:", "turn"} {
				value := fmt.Sprint(ms)
				if ms < 0 {
					value = "nonsense"
				}
				r.must("DEL", rwIntents)
				r.must("HSET", rwIntents, kind+map[bool]string{true: "x:1"}[kind != "turn"], value)
				r.reads(r.reader(1), ReadJoin)
				r.mustIntend()
				r.end(r.reader(1))
				r.must("HSET", rwIntents, kind+map[bool]string{true: "x:1"}[kind != "turn"], value, "turn", value)
				r.writes(r.writer(2))
				r.mustIntend()
				r.end(r.writer(2))
				r.mustKeys()
			}
			t.Log(what)
		}
	})
}
