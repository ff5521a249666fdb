package relock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every script may be sent twice: what the first one left in Redis stays as it is, and
// nobody is told anything again. The reply is the same, or says that there is nothing
// to be done any more.
func TestEveryScriptMayBeSentTwice(t *testing.T) {
	const same = "" // reply to the second
	cases := []struct {
		name   string
		before func(r *rwRig)
		call   func(r *rwRig) string
		first  string // reply, or what it begins with
		second string
	}{
		{"acquire", nothing, asks(plain, 1), "granted", same},
		{"acquire of a held lock", has(plain, 2), asks(plain, 1), "taken", same},
		{"release", has(plain, 1), ends(plain, 1), "told 1", "told -1"},
		{"renew", has(plain, 1), renews(plain, 1), "kept", same},
		{"renew of a hold that is gone", has(plain, 2), renews(plain, 1), "gone", same},

		{"read", nothing, asks(read, 1), "join", same},
		{"read beside a reader", has(read, 2), asks(read, 1), "join", same},
		{"read of a written lock", has(write, 2), asks(read, 1), "taken", same},
		{"read while a writer waits", all(has(read, 2), wants(write, 3)), asks(read, 1), "taken", same},
		{"read under one's own write hold", has(write, 2), func(r *rwRig) string {
			reply, _ := r.rlock(r.reader(1), r.writer(2), false)
			return rwReplies[reply]
		}, "join", same},
		{"read in the readers' turn",
			all(has(write, 2), wants(read, 1), wants(write, 3), does(ends(write, 2))), asks(read, 1), "alone", same},
		{"write", nothing, asks(write, 1), "granted", same},
		{"write of a written lock", has(write, 2), asks(write, 1), "taken", same},
		{"write of a read lock", has(read, 2), asks(write, 1), "taken", same},
		{"write after having waited", all(has(read, 2), wants(write, 1), does(ends(read, 2))), asks(write, 1), "granted", same},
		{"write in the readers' turn", all(has(write, 2), wants(read, 3), does(ends(write, 2))), asks(write, 1), "taken", same},
		{"confirm", has(read, 1), confirms(1, 2), "join", same},
		{"confirm while a writer waits", all(has(read, 1), wants(write, 3)), confirms(1, 2), "taken", same},
		{"confirm in the readers' turn",
			all(has(write, 4), wants(read, 2), wants(read, 1), wants(read, 5), wants(write, 3), does(ends(write, 4)), longTurn, does(asks(read, 1))),
			confirms(1, 2), "alone", same},
		{"confirm a hold that is gone", nothing, confirms(1, 2), "gone", same},
		{"release a read hold", has(read, 1), ends(read, 1), "told 1", "told -1"},
		{"release one of two read holds", all(has(read, 1), has(read, 2)), ends(read, 1), "told 0", "told -1"},
		{"give up a wait to read", all(has(write, 2), wants(read, 1)), ends(read, 1), "told -1", same},
		{"release a read hold under one's own write hold", all(has(write, 2), func(r *rwRig) {
			r.rlock(r.reader(1), r.writer(2), false)
		}), ends(read, 1), "told 0", "told -1"},
		{"release a write hold", has(write, 1), ends(write, 1), "told 1", "told -1"},
		{"release a write hold and read on", all(has(write, 1), func(r *rwRig) {
			r.rlock(r.reader(2), r.writer(1), false)
		}), ends(write, 1), "told 1", "told -1"},
		{"release a write hold that readers wait for", all(has(write, 1), wants(read, 2)), ends(write, 1), "told 1", "told -1"},
		{"give up a wait to write", all(has(read, 2), wants(write, 1)), ends(write, 1), "told -1", same},
		{"renew a read hold", has(read, 1), renews(read, 1), "kept", same},
		{"renew a write hold", has(write, 1), renews(write, 1), "kept", same},

		{"enter", nothing, asks(fair, 1), "granted", same},
		{"enter a held lock", has(fair, 2), asks(fair, 1), "taken", same},
		{"enter and queue", has(fair, 2), queues(1), "taken", same},
		{"enter and queue behind another", all(has(fair, 2), does(queues(3))), queues(1), "taken", same},
		{"enter a free lock that another waits for",
			all(has(fair, 2), does(queues(3)), del("a")), asks(fair, 1), "taken", same},
		{"enter after one's place was given the lock",
			all(has(fair, 2), does(queues(1)), does(ends(fair, 2))), asks(fair, 1), "granted", same},
		{"look", all(has(fair, 2), does(queues(1))), looks(1), "taken", same},
		{"look without a place", has(fair, 2), looks(1), "lost", same},
		{"look for a grant whose message was lost",
			all(has(fair, 2), does(queues(1)), does(ends(fair, 2))), looks(1), "granted", same},
		{"look at a free lock", all(has(fair, 2), does(queues(1)), del("a")), looks(1), "granted", same},
		{"look at a free lock, second in the queue",
			all(has(fair, 2), does(queues(3)), does(queues(1)), del("a")), looks(1), "taken", same},
		{"leave", has(fair, 1), ends(fair, 1), "told 1", "told -1"},
		{"leave to the next", all(has(fair, 1), does(queues(2)), does(queues(3))), ends(fair, 1), "told 0", "told -1"},
		{"leave to Redisson", all(has(fair, 1), does(queues(2)), func(r *rwRig) {
			r.must("RPUSH", "redisson_lock_queue:{a}", "j:1")
		}), ends(fair, 1), "told 0", "told -1"},
		{"leave the queue", all(has(fair, 1), does(queues(2))), ends(fair, 2), "told 0", "told -1"},
		{"leave as the next already", all(has(fair, 1), does(queues(2)), does(ends(fair, 1))), ends(fair, 2), "told 1", "told -1"},
		{"renew a claim", all(has(fair, 2), does(queues(1)), does(ends(fair, 2))), renews(fair, 1), "kept", same},

		{"force", has(plain, 1), forces, "opened true", "opened false"},
		{"force what is read and wanted", all(has(read, 1), has(read, 2), wants(write, 3)), forces, "opened true", "opened false"},
	}
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		next := r.listen("redisson_lock__channel:{a}", "redisson_rwlock:{a}", "relock_grant:{a}:s",
			"relock_session:s", "redisson_lock__channel:{a}:j:1", "end")
		for _, c := range cases {
			t.Log(c.name)
			r.must("FLUSHALL")
			c.before(r)
			r.lasting()
			first := c.call(r)
			if !strings.HasPrefix(first, c.first) {
				t.Fatalf("the first said %q, want %q", first, c.first)
			}
			r.must("PUBLISH", "end", "first")
			for next() != "end first" {
			}
			was := r.contents()
			for range 2 {
				r.lasting()
				again := c.call(r)
				if want := c.second; want != same && again != want || want == same && again != first {
					t.Fatalf("sent again it said %q, first %q", again, first)
				}
				if is := r.contents(); is != was {
					t.Fatalf("sent again it left\n%swhere there was\n%s", is, was)
				}
			}
			r.mustMessages(next, "end")
		}
	})
}

func nothing(*rwRig) {}

func all(fs ...func(r *rwRig)) func(r *rwRig) {
	return func(r *rwRig) {
		for _, f := range fs {
			f(r)
		}
	}
}

// does is a call whose reply does not matter.
func does(call func(r *rwRig) string) func(r *rwRig) { return func(r *rwRig) { call(r) } }

func del(key string) func(r *rwRig) { return func(r *rwRig) { r.must("DEL", key) } }

// has takes the n-th hold of a kind, which must be free.
func has(k kind, n int) func(r *rwRig) {
	return func(r *rwRig) {
		if got := asks(k, n)(r); got == "taken" {
			r.t.Fatalf("%d is %s", n, got)
		}
	}
}

// wants asks for what must be taken, and waits.
func wants(k kind, n int) func(r *rwRig) {
	return func(r *rwRig) {
		if got := asks(k, n)(r); got != "taken" {
			r.t.Fatalf("%d is %s", n, got)
		}
	}
}

var rwReplies = map[int64]string{0: "taken", readJoin: "join", readAlone: "alone", readGone: "gone"}

// asks asks for the n-th hold of a kind, and waits if it is a reader or writer.
func asks(k kind, n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		l := r.lease(k, n)
		switch k {
		case read:
			reply, _ := r.rlock(l, nil, true)
			return rwReplies[reply]
		case fair:
			return r.grant(r.enter(ctx0, l, millis(l.length), false, &r.cfg))
		}
		return r.grant(r.acquire(ctx0, l, millis(l.length), true, &r.cfg))
	}
}

func queues(n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		l := r.lease(fair, n)
		return r.grant(r.enter(ctx0, l, millis(l.length), true, &r.cfg))
	}
}

func looks(n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		replies, errs := r.look(ctx0, []*lease{r.lease(fair, n)})
		if replies[0] == lostPlace && errs[0] == nil {
			return "lost"
		}
		return r.grant(granted(replies[0], errs[0]))
	}
}

func confirms(n, by int) func(r *rwRig) string {
	return func(r *rwRig) string {
		reply, _, err := r.confirmRead(ctx0, r.reader(n), r.reader(by), true)
		if err != nil {
			r.t.Fatal(err)
		}
		return rwReplies[reply]
	}
}

func ends(k kind, n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		told, err := r.release(ctx0, r.lease(k, n))
		if err != nil {
			r.t.Fatal(err)
		}
		return fmt.Sprint("told ", told)
	}
}

func renews(k kind, n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		got := r.renew(ctx0, []*lease{r.lease(k, n)})[0]
		if got.err != nil {
			r.t.Fatal(got.err)
		}
		return map[bool]string{true: "gone", false: "kept"}[got.gone]
	}
}

// longTurn makes the readers' turn long enough for a slow machine.
func longTurn(r *rwRig) {
	r.must("HSET", rwIntents, "turn", fmt.Sprint(time.Now().Add(30*time.Second).UnixMilli()))
}

func forces(r *rwRig) string {
	was, err := r.force(ctx0, "a")
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprint("opened ", was)
}

// grant tells the token, or that the lock is taken.
func (r *rwRig) grant(token int64, _ any, err error) string {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	if token > 0 {
		return fmt.Sprint("granted ", token)
	}
	return "taken"
}

// lasting makes the intents and the readers' turn last, however slow the machine is.
func (r *rwRig) lasting() {
	r.t.Helper()
	for what := range r.hash(rwIntents) {
		reply := r.must("TIME")
		now, err := reply.AsIntSlice()
		if err != nil {
			r.t.Fatal(err)
		}
		r.must("HSET", rwIntents, what, fmt.Sprint(now[0]*1000+30_000))
		r.must("PEXPIRE", rwIntents, "60000")
	}
}

// contents returns all that is stored, but for times and for what ends by itself soon.
func (r *rwRig) contents() string {
	r.t.Helper()
	var all strings.Builder
	for _, key := range r.keys() {
		switch kind := r.text("TYPE", key); {
		case strings.HasPrefix(key, "relock_yield"):
		case key == rwIntents:
			fmt.Fprintf(&all, "%s %q\n", key, slices.Sorted(maps.Keys(r.hash(key))))
		case kind == "hash":
			fmt.Fprintf(&all, "%s %q\n", key, r.hash(key))
		case kind == "zset":
			m := r.must("ZRANGE", key, "0", "-1", "WITHSCORES")
			fmt.Fprintf(&all, "%s %s\n", key, m.String())
		case kind == "list":
			fmt.Fprintf(&all, "%s of %d\n", key, r.int("LLEN", key))
		default:
			fmt.Fprintf(&all, "%s %s\n", key, r.text("GET", key))
		}
	}
	return all.String()
}
