package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAcquireWritesWhatRedissonReads(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for name, want := range map[string]struct{ fence, channel string }{
			"orders":      {"relock_fence:{orders}", "redisson_lock__channel:{orders}"},
			"{o}rders":    {"relock_fence:{o}rders", "redisson_lock__channel:{o}rders"},
			"or:{d}:{e}s": {"relock_fence:or:{d}:{e}s", "redisson_lock__channel:or:{d}:{e}s"},
			"a b\r\n\x00": {"relock_fence:{a b\r\n\x00}", "redisson_lock__channel:{a b\r\n\x00}"},
		} {
			r.must("FLUSHALL")
			next := r.listen(want.channel)
			l := plainLease(name, 7)
			token := r.take(l)
			if got := r.text("TYPE", name); got != "hash" {
				t.Fatalf("%q is a %s", name, got)
			}
			if got := r.hash(name); !maps.Equal(got, map[string]string{id("s:7"): "1"}) {
				t.Fatalf("%q is %q", name, got)
			}
			r.mustNear("time to live", r.pttl(name), l.Length)
			if got := r.text("GET", want.fence); got != fmt.Sprint(token) {
				t.Fatalf("fence is %q, token %d", got, token)
			}
			if token < 1<<50 || token >= 1<<53 {
				t.Fatalf("token %d is not of our time", token)
			}
			if got := r.pttl(want.fence); got < time.Minute/2 || got > time.Minute+time.Second {
				t.Fatalf("fence expires in %v", got)
			}
			if got := r.keys(); !slices.Equal(got, slices.Sorted(slices.Values([]string{name, want.fence}))) {
				t.Fatalf("keys %q", got)
			}
			r.end(l)
			r.mustMessages(next, want.channel, want.channel+" 0")
			r.must("DEL", strings.Replace(want.fence, "fence", "yield", 1)) // somebody listened
			if got := r.keys(); !slices.Equal(got, []string{want.fence}) {
				t.Fatalf("after the release there are keys %q", got)
			}
		}
	})
}

func TestAcquireSentTwiceIsOneAcquisition(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		l := plainLease("a", 1)
		token := r.take(l)
		r.must("PEXPIRE", "a", "15000")
		fence := r.pttl(l.Keys.fence)
		for range 3 {
			if again := r.take(l); again != token {
				t.Fatalf("sent again it got token %d, first %d", again, token)
			}
		}
		if got := r.hash("a"); !maps.Equal(got, map[string]string{id("s:1"): "1"}) {
			t.Fatalf("the lock is %q", got)
		}
		r.mustNear("time to live", r.pttl("a"), l.Length) // the lease starts again
		if r.pttl(l.Keys.fence) > fence {
			t.Fatal("a token was issued again")
		}
		// Also when the key of the token is gone: there is a token, and not a smaller one.
		r.must("DEL", l.Keys.fence)
		if again := r.take(l); again <= token {
			t.Fatalf("token %d after %d", again, token)
		}
	})
}

func TestAcquireOfAHeldLockReportsItsTimeToLive(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		l, other := plainLease("a", 1), plainLease("a", 2)
		r.take(l)
		token, ttl, err := r.ask(other)
		if token != 0 || err != nil {
			t.Fatalf("a held lock gave %d, %v", token, err)
		}
		r.mustNear("time to live", ttl, l.Length)

		r.must("PERSIST", "a")
		if token, ttl, err = r.ask(other); token != 0 || ttl >= 0 || err != nil {
			t.Fatalf("a lock without expiry gave %d, %v, %v", token, ttl, err)
		}
		if token, _, err = r.ask(l); token <= 0 || err != nil {
			t.Fatalf("its holder got %d, %v", token, err)
		}
		r.mustNear("time to live", r.pttl("a"), l.Length) // there is an expiry again

		r.must("PEXPIRE", "a", "1") // its last millisecond
		if token, ttl, err = r.ask(other); err != nil || token == 0 && (ttl < 0 || ttl > time.Millisecond) {
			t.Fatalf("a lock that ends gave %d, %v, %v", token, ttl, err)
		}
		if got := r.hash("a"); len(got) > 1 {
			t.Fatalf("two holders: %q", got)
		}
	})
}

// A Redisson thread holds the lock, twice.
func TestLockOfRedissonIsHeld(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		const thread = "1b3c0c4e-9e5b-4f0a-8a3e-0d3f4f5a6b7c:47"
		r.must("HSET", "a", thread, "2")
		r.must("PEXPIRE", "a", "30000")
		l := plainLease("a", 1)
		if token, ttl, err := r.ask(l); token != 0 || ttl <= 0 || err != nil {
			t.Fatalf("acquire = %d, %v, %v", token, ttl, err)
		}
		if told, err := r.Release(ctx0, l, nil); told != -1 || err != nil {
			t.Fatalf("release = %d, %v", told, err)
		}
		if got := r.hash("a"); !maps.Equal(got, map[string]string{thread: "2"}) {
			t.Fatalf("Redisson's lock is %q", got)
		}
	})
}

func TestReleaseSentTwiceEndsNothingElse(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		l, next := plainLease("a", 1), plainLease("a", 2)
		heard := r.listen(l.Keys.Channel)
		r.take(l)
		if told, err := r.Release(ctx0, l, nil); told != 1 || err != nil {
			t.Fatalf("release = %d, %v; one subscriber", told, err)
		}
		r.must("DEL", "relock_yield:{a}") // so that the lock is not reserved
		r.take(next)
		for range 2 {
			if told, err := r.Release(ctx0, l, nil); told != -1 || err != nil {
				t.Fatalf("a release sent again = %d, %v", told, err)
			}
		}
		if got := r.hash("a"); !maps.Equal(got, map[string]string{id("s:2"): "1"}) {
			t.Fatalf("the next holder's lock is %q", got)
		}
		r.mustMessages(heard, l.Keys.Channel, l.Keys.Channel+" 0") // one only
	})
}

func TestReleaseAllAnswersForEach(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		var ls []*Ref
		for i := range 50 {
			l := plainLease(fmt.Sprint("lock", i), i)
			ls = append(ls, l)
			switch i % 3 {
			case 0:
				r.take(l)
			case 1:
				r.must("SET", l.Keys.Name, "no lock")
			}
		}
		told, errs := r.ReleaseAll(ctx0, ls)
		for i, l := range ls {
			switch {
			case i%3 == 0 && (told[i] != 0 || errs[i] != nil), i%3 == 2 && (told[i] != -1 || errs[i] != nil):
				t.Fatalf("%s: %d, %v", l.Keys.Name, told[i], errs[i])
			case i%3 == 1:
				r.mustBeWrongType(l.Keys.Name, errs[i])
			}
		}
		if told, errs = r.ReleaseAll(ctx0, nil); len(told) != 0 || len(errs) != 0 {
			t.Fatal("results for nothing")
		}
	})
}

func TestForceOpensNotifiesAndWakes(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		const redisson = "00000000-0000-4000-8000-000000005f2c:9"
		lockChannel, rwChannel := "redisson_lock__channel:{my lock}", "redisson_rwlock:{my lock}"
		heard := r.listen(lockChannel, rwChannel, "relock_session:"+session("s"), "relock_session:00000000-0000-4000-8000-000000005f2c")
		l := plainLease("my lock", 3)
		for i := range 2 {
			if was, err := r.Force(ctx0, "my lock"); was || err != nil {
				t.Fatalf("force of a free lock = %v, %v", was, err)
			}
			if i == 0 {
				r.take(l)
				if was, err := r.Force(ctx0, "my lock"); !was || err != nil {
					t.Fatalf("force = %v, %v", was, err)
				}
				if r.int("EXISTS", "my lock") != 0 {
					t.Fatal("the lock is still there")
				}
			}
		}
		r.mustMessages(heard, lockChannel, "relock_session:"+session("s")+" lost "+id("s:3")+" my lock", lockChannel+" 0")

		// A read-write lock of Redisson's form: its fields, and the channel that its
		// waiters listen to.
		r.must("HSET", "my lock", "mode", "write", redisson+":write", "1")
		if was, err := r.Force(ctx0, "my lock"); !was || err != nil {
			t.Fatalf("force = %v, %v", was, err)
		}
		r.mustMessages(heard, lockChannel, "relock_session:00000000-0000-4000-8000-000000005f2c lost "+redisson+" my lock", rwChannel+" 1", rwChannel+" 00")

		// A field of an application stops nothing, and stays.
		r.must("HSET", "my lock", "no id", "1", redisson, "1")
		if was, err := r.Force(ctx0, "my lock"); !was || err != nil || !maps.Equal(r.hash("my lock"), map[string]string{"no id": "1"}) {
			t.Fatalf("force = %v, %v", was, err)
		}
		r.mustMessages(heard, lockChannel, "relock_session:"+redisson[:36]+" lost "+redisson+" my lock", lockChannel+" 0")
	})
}

// A key of another type beside the lock made an error of it, after the lock was open.
func TestForceReportsWhatItHasOpened(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		damage := map[string]func(key string){
			"damaged":  func(key string) { r.must("DEL", key); r.must("HSET", key, "no", "token") },
			"as it is": func(string) {},
		}
		for _, kind := range []Kind{Fair, Write} {
			for _, part := range []func(k Keys) string{func(k Keys) string { return k.fence }, func(k Keys) string { return k.aux }} {
				for what, damage := range damage {
					r.must("FLUSHALL")
					k := NewKeys(kind, "a")
					held, waits := &Ref{Keys: &k, Kind: kind, ID: id("s:1"), Length: time.Minute, Claim: ClaimMost}, &Ref{Keys: &k, Kind: kind, ID: id("t:2"), Length: time.Minute, Claim: ClaimMost}
					if kind == Write {
						held.ID, waits.ID = held.ID+":write", waits.ID+":write"
					}
					heard := r.listen("relock_session:" + session("t"))
					r.take(held)
					if token, _, err := r.Acquire(ctx0, waits, "60000", true); token > 0 || err != nil {
						t.Fatalf("queueing = %d, %v", token, err)
					}
					damage(part(k))
					if was, err := r.Force(ctx0, "a"); !was || err != nil {
						t.Fatalf("kind %d, %s %s: force = %v, %v", kind, part(k), what, was, err)
					}
					if fields := r.hash("a"); fields[held.ID] != "" {
						t.Fatalf("kind %d, %s %s: it still holds: %q", kind, part(k), what, fields)
					}
					if what == "damaged" && part(k) == k.aux { // nobody knows who waits
						continue
					}
					want := "granted "
					if what == "damaged" {
						want = "look "
					}
					if message := heard(); !strings.Contains(message, want+waits.ID) {
						t.Fatalf("kind %d, %s %s: the waiter has heard %q", kind, part(k), what, message)
					}
				}
			}
		}
	})
}

func TestForceKeepsTheTokensGrowing(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		token := r.take(plainLease("a", 1))
		if _, err := r.Force(ctx0, "a"); err != nil {
			t.Fatal(err)
		}
		if next := r.take(plainLease("a", 2)); next <= token+Tokens(token)-1 {
			t.Fatalf("token %d after %d", next, token)
		}
	})
}

func TestInspectWritesNothing(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		check := func(what string, ttl func(int64) bool, waiters int, fields map[string]int) {
			t.Helper()
			before := strings.Join(r.keys(), " ")
			in, err := r.Inspect(ctx0, "a")
			if err != nil || !ttl(in.TTL) || in.Waiters != waiters || !maps.Equal(in.Fields, fields) {
				t.Fatalf("%s: %+v, %v", what, in, err)
			}
			if after := strings.Join(r.keys(), " "); before != after {
				t.Fatalf("%s: keys %q before, %q after", what, before, after)
			}
		}
		is := func(n int64) func(int64) bool { return func(ttl int64) bool { return ttl == n } }
		running := func(ttl int64) bool { return ttl > 20000 && ttl <= 30000 }

		check("free", is(-2), 0, map[string]int{})
		r.take(plainLease("a", 1))
		check("held", running, 0, map[string]int{id("s:1"): 1})
		r.must("PERSIST", "a")
		check("without expiry", is(-1), 0, map[string]int{id("s:1"): 1})
		r.must("ZADD", "relock_queue:{a}", "1", id("s:4"), "2", id("s:5"))
		r.must("HSET", "a", id("x:9"), "3")
		check("with a queue", is(-1), 2, map[string]int{id("s:1"): 1, id("x:9"): 3})
		r.must("DEL", "a", "relock_queue:{a}")
		r.must("HSET", "a", "mode", "read", id("x:9"), "2", id("y:1"), "1")
		r.must("PEXPIRE", "a", "30000")
		check("read", running, 0, map[string]int{"mode": 1, id("x:9"): 2, id("y:1"): 1})
		r.must("HSET", "a", "mode", "write")
		check("written", running, 0, map[string]int{"mode": 0, id("x:9"): 2, id("y:1"): 1})
	})
}
