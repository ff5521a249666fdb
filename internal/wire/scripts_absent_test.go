package wire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redis/rueidis"
)

// absentRig is waiters of one FairMutex, of a session each, which is there when the test
// subscribes its channel.
type absentRig struct {
	*rwRig
	conn rueidis.DedicatedClient
}

func onAbsentRigs(t *testing.T, f func(t *testing.T, r *absentRig)) {
	t.Helper()
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		conn, put := r.Client.Dedicate()
		t.Cleanup(put)
		conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
		f(t, &absentRig{r, conn})
	})
}

const (
	absentKey   = "relock_absent:{a}"
	absentQueue = "relock_queue:{a}"
)

// comes makes a session present.
func (r *absentRig) comes(short string) {
	r.t.Helper()
	if err := r.conn.Do(ctx0, r.conn.B().Subscribe().Channel("relock_session:"+session(short)).Build()).Error(); err != nil {
		r.t.Fatal(err)
	}
}

// of is the n-th waiter of a session.
func (r *absentRig) of(short string, n int) *Ref {
	l := r.lease(Fair, n)
	l.ID = id(fmt.Sprint(short, ":", n))
	return l
}

// enters takes the lock or queues for it, and reports whether it was taken.
func (r *absentRig) enters(short string, n int, queue bool) bool {
	r.t.Helper()
	l := r.of(short, n)
	token, _, err := r.Acquire(ctx0, l, Millis(l.Length), queue)
	if err != nil {
		r.t.Fatal(err)
	}
	return token > 0
}

// looksFor returns the token of a look, or 0.
func (r *absentRig) looksFor(ls ...*Ref) (tokens []int64) {
	r.t.Helper()
	replies, errs := r.Probe(ctx0, ls)
	for i, err := range errs {
		if err != nil {
			r.t.Fatal(err)
		}
		tokens = append(tokens, max(0, replies[i]))
	}
	return tokens
}

// passes ends the hold and checks who has the lock then, and who is in the queue.
func (r *absentRig) passes(from *Ref, to string, queue ...string) {
	r.t.Helper()
	r.end(from)
	r.mustHave(to, queue...)
}

func (r *absentRig) mustHave(holder string, queue ...string) {
	r.t.Helper()
	has := ""
	for field := range r.hash("a") {
		has += field
	}
	if holder != "" {
		holder = id(holder)
	}
	if has != holder {
		r.t.Fatalf("%q has the lock, not %q", has, holder)
	}
	for i, short := range queue {
		queue[i] = id(short)
	}
	m := r.must("ZRANGE", absentQueue, "0", "-1")
	if ids, _ := m.AsStrSlice(); !slices.Equal(ids, queue) {
		r.t.Fatalf("in the queue are %q, not %q", ids, queue)
	}
}

// later has all absences begin 5 s earlier, as if that time had passed.
func (r *absentRig) later() {
	r.t.Helper()
	for session, since := range r.hash(absentKey) {
		var ms int64
		if _, err := fmt.Sscan(since, &ms); err != nil {
			r.t.Fatal(err)
		}
		r.must("HSET", absentKey, session, fmt.Sprint(ms-5000))
	}
}

func TestWaiterThatIsAbsentKeepsItsPlaceOverManyReleases(t *testing.T) {
	onAbsentRigs(t, func(t *testing.T, r *absentRig) {
		r.comes("b")
		r.enters("h", 1, false)
		r.enters("a", 1, true)
		r.enters("a", 2, true)
		r.enters("b", 1, true)
		r.enters("b", 2, true)
		r.passes(r.of("h", 1), "b:1", "a:1", "a:2", "b:2")
		r.passes(r.of("b", 1), "b:2", "a:1", "a:2") // a moment later
		if ttl := r.pttl(absentQueue); ttl <= 0 {
			t.Fatalf("the queue lasts for %v", ttl)
		}
		if ttl := r.pttl(absentKey); ttl <= 0 {
			t.Fatalf("absences last for %v", ttl)
		}
		r.comes("a")
		r.passes(r.of("b", 2), "a:1", "a:2")
		r.passes(r.of("a", 1), "a:2")
		r.passes(r.of("a", 2), "")
	})
}

func TestWaitersThatAreAbsentAgainLaterLoseTheirPlaces(t *testing.T) {
	onAbsentRigs(t, func(t *testing.T, r *absentRig) {
		const many = 250 // more than are read at a time
		r.comes("b")
		r.enters("h", 1, false)
		for n := range many {
			r.enters("a", n, true)
		}
		r.enters("b", 1, true)
		r.enters("b", 2, true)
		r.end(r.of("h", 1))
		if n := r.int("ZCARD", absentQueue); n != many+1 {
			t.Fatalf("%d waiters", n)
		}
		r.later()
		r.passes(r.of("b", 1), "b:2")
		if n := r.int("EXISTS", absentKey); n != 0 {
			t.Fatal("the absence is remembered when it does not matter any more")
		}
	})
}

func TestWaiterThatWasSeenInBetweenIsNotAbsentAnyMore(t *testing.T) {
	for what, seen := range map[string]func(r *absentRig){
		"it looks":          func(r *absentRig) { r.looksFor(r.of("a", 1)) },
		"another one looks": func(r *absentRig) { r.looksFor(r.of("a", 2)) },
	} {
		t.Run(what, func(t *testing.T) {
			onAbsentRigs(t, func(t *testing.T, r *absentRig) {
				r.comes("b")
				r.enters("h", 1, false)
				r.enters("a", 1, true)
				r.enters("a", 2, true)
				r.enters("b", 1, true)
				r.enters("b", 2, true)
				r.end(r.of("h", 1))
				r.later()
				seen(r)
				r.mustHave("b:1", "a:1", "a:2", "b:2")
				r.passes(r.of("b", 1), "b:2", "a:1", "a:2")
			})
		})
	}
}

// Nobody in the queue is there: whoever comes takes the lock, and they keep their places.
func TestQueueOfTheAbsentKeepsNobodyFromTheLock(t *testing.T) {
	onAbsentRigs(t, func(t *testing.T, r *absentRig) {
		r.enters("h", 1, false)
		r.enters("a", 1, true)
		r.enters("a", 2, true)
		r.passes(r.of("h", 1), "", "a:1", "a:2")
		for n := range 3 {
			if !r.enters("c", n, false) {
				t.Fatal("the lock cannot be acquired")
			}
			r.passes(r.of("c", n), "", "a:1", "a:2")
		}
		r.later()
		if !r.enters("c", 9, true) {
			t.Fatal("the lock cannot be acquired")
		}
		r.mustHave("c:9")
	})
}

// Who asks is there, although the server sees no subscription of it: those of one session
// that look get a free lock in their order.
func TestWaitersThatProbeGetAFreeLockInTheirOrder(t *testing.T) {
	onAbsentRigs(t, func(t *testing.T, r *absentRig) {
		r.enters("h", 1, false)
		r.enters("a", 1, true)
		r.enters("a", 2, true)
		r.passes(r.of("h", 1), "", "a:1", "a:2")
		tokens := r.looksFor(r.of("a", 2), r.of("a", 1))
		if tokens[0] != 0 || tokens[1] <= 0 {
			t.Fatalf("tokens %v", tokens)
		}
		r.mustHave("a:1", "a:2")
	})
}

// Without the right to remember who is absent, the absent lose their places at once.
func TestAbsenceThatCannotBeRememberedCostsThePlace(t *testing.T) {
	r := &rwRig{NewRig(t), "a"}
	r.must("ACL", "SETUSER", "default", "resetkeys", "~a", "~relock_fence:{a}", "~relock_queue:{a}", "~relock_yield:{a}", "~redisson_lock_queue:{a}")
	conn, put := r.Client.Dedicate()
	t.Cleanup(put)
	a := &absentRig{r, conn}
	a.comes("b")
	a.enters("h", 1, false)
	a.enters("a", 1, true)
	a.enters("b", 1, true)
	a.end(a.of("h", 1))
	if n := r.int("ZCARD", absentQueue); n != 0 {
		t.Fatalf("%d waiters", n)
	}
	if n := r.int("HLEN", "a"); n != 1 {
		t.Fatalf("%d holders", n)
	}
}
