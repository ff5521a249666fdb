package wire

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// queues asks for either side and must get a place in the queue.
func (r *rwRig) queues(ls ...*Ref) {
	r.t.Helper()
	for _, l := range ls {
		r.refused(l, 0, time.Minute)
	}
}

// held checks who has the lock.
func (r *rwRig) held(ls ...*Ref) {
	r.t.Helper()
	want := map[string]string{"mode": "write"}
	for _, l := range ls {
		want[l.ID] = "1"
		if l.Kind == Read {
			want["mode"] = "read"
		}
	}
	if len(ls) == 0 {
		want = map[string]string{}
	}
	r.mustHash(want)
}

// A writer waits for the readers of one phase, and a reader for one writer.
func TestRWReadersAndWritersTakeTurns(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		next := r.present()
		of := r.reader
		w1, w2, w3 := r.writer(1), r.writer(2), r.writer(3)
		r.writes(w1)
		r.queues(of(4), w2, of(5), w3, of(6))
		r.mustQueue(w2, w3, of(4), of(5), of(6))
		r.end(w1)
		r.held(of(4), of(5), of(6))
		for _, key := range []string{"a", of(5).Keys.timeout(of(5).ID)} {
			r.mustNear("the claim on "+key, r.pttl(key), ClaimMost)
		}
		r.reads(of(9), 0) // who does not queue
		r.queues(of(7))
		r.joins(of(4), of(8), true, 0)
		r.end(of(4))
		r.end(of(6))
		r.held(of(5))
		r.end(of(5))
		r.held(w2)
		r.queues(of(10))
		r.end(w2)
		r.held(of(7), of(8), of(10))
		r.mustQueue(w3)
		for _, l := range []*Ref{of(7), of(10), of(8)} {
			r.end(l)
		}
		r.held(w3)
		token, _ := strconv.ParseInt(r.text("GET", "relock_fence:{a}"), 10, 64)
		r.end(w3)
		r.held()
		r.mustKeys()
		var want []string
		for _, n := range []int{4, 5, 6} {
			want = append(want, granted(of(n), readAlone))
		}
		for range want {
			if got := next(); got != want[0] {
				t.Fatalf("message %q, want %q", got, want[0])
			}
			want = want[1:]
		}
		next() // to w2
		for _, n := range []int{7, 8, 10} {
			if got := next(); got != granted(of(n), readAlone) {
				t.Fatalf("message %q", got)
			}
		}
		r.mustMessages(next, "relock_session:"+session("s"), granted(w3, token))
	})
}

func TestRWADowngradeLetsReadersIn(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present()
		w, own, next := r.writer(1), r.reader(2), r.writer(5)
		r.writes(w)
		r.rlock(own, w, false)
		r.queues(r.reader(3), next, r.reader(4))
		r.end(w)
		r.held(own, r.reader(3), r.reader(4))
		r.mustNear("the lock", r.pttl("a"), own.Length)
		r.mustQueue(next)
		r.mustList(3)
		r.end(own)
		r.mustNear("the lock", r.pttl("a"), ClaimMost)
		r.end(r.reader(3))
		r.end(r.reader(4))
		r.held(next)
	})
}

// A writer that gives up, is gone, or does not look after itself any more stops no readers.
func TestRWAWriterThatIsNotThereStopsNobody(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present("relock_session:" + session("f"))
		a, b, w := r.reader(1), r.reader(2), r.writer(3)
		w.ID = id("f:3:write")
		restart := func() {
			r.must("FLUSHALL")
			r.reads(a, ReadJoin)
			r.queues(w, b)
		}
		restart()
		r.end(w)
		r.held(a, b)

		restart()
		frozen(r) // its connection is there
		r.looksFor(ReadJoin, b)
		r.held(a, b)
		r.mustQueue(w)   // stands back
		r.looksFor(0, w) // it is back
		r.queues(r.reader(4))
		r.end(a)
		r.end(b)
		r.held(w)

		restart()
		dead := r.writer(5)
		dead.ID = id("x:5:write")
		r.must("DEL", rwQueue)
		r.queues(dead)
		r.reads(r.reader(4), ReadJoin)
		r.mustQueue(dead) // it may come back
		r.end(a)
		r.end(r.reader(4))
		r.held()
		r.writes(w)
		r.mustQueue(dead)
	})
}

// A reader whose session is gone stands back; the others have their turn.
func TestRWAReaderThatIsNotThereStandsBack(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present()
		w, next, gone := r.writer(1), r.writer(2), r.reader(3)
		gone.ID = id("x:3")
		r.writes(w)
		r.queues(gone, next)
		r.end(w)
		r.held(next)
		r.mustQueue(gone)
		r.looksFor(0, gone) // it hears nothing, but comes with the next readers
		r.queues(r.reader(4))
		r.end(next)
		r.held(gone, r.reader(4))
		r.end(gone)
		r.end(r.reader(4))

		// Before the writers, as one whom the last phase has left over. (The writer had the lock
		// and its place, or, by a look, the place and not the lock.)
		leftOver := func() { r.must("ZADD", rwQueue, "2", gone.ID) }
		leftOver()
		if token, _ := r.lock(r.writer(5), true); token == 0 {
			t.Fatal("the lock is taken")
		}
		r.held(r.writer(5))
		r.mustQueue(gone)
		r.queues(r.writer(6))
		r.must("DEL", "a")
		leftOver()
		replies, errs := r.Probe(ctx0, []*Ref{r.writer(6)})
		r.held(r.writer(6))
		r.mustQueue(gone)
		if token := r.int("GET", r.writer(6).Keys.fence); errs[0] != nil || replies[0] != token {
			t.Fatalf("the look says %d, %v; want token %d", replies[0], errs[0], token)
		}
	})
}

// One script lets in a hundred. The next hundred come before the writers, and who comes later
// does not.
func TestRWACrowdOfReadersComesInByHundreds(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		next := r.present()
		w, other := r.writer(1), r.writer(2)
		r.writes(w)
		r.queues(other)
		const crowd = 250
		for n := range crowd {
			r.queues(r.reader(1000 + n))
		}
		r.end(w)
		for at := 100; at < crowd; at += 100 {
			if got := r.int("HLEN", "a"); got != int64(1+at) {
				t.Fatalf("%d fields, want %d", got, 1+at)
			}
			first := r.reader(1000 + at)
			for want := "relock_session:" + session("s") + " look " + first.ID; next() != want; {
			}
			r.queues(r.reader(5000 + at))
			r.looksFor(readAlone, first)
		}
		if got := r.int("HLEN", "a"); got != 1+crowd {
			t.Fatalf("%d fields", got)
		}
		r.mustQueue(other, r.reader(5100), r.reader(5200))
		for n := range crowd {
			r.end(r.reader(1000 + n))
		}
		r.held(other)
	})
}

// While a reader of the crowd that is left over has not looked, the last of those that were let in
// may leave: then the others come before the writer all the same.
func TestRWTheRestOfACrowdIsNotForgotten(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present()
		w, other := r.writer(1), r.writer(2)
		r.writes(w)
		r.queues(other)
		for n := range 150 {
			r.queues(r.reader(1000 + n))
		}
		r.end(w)
		for n := range 100 {
			r.end(r.reader(1000 + n))
		}
		if got := r.int("HLEN", "a"); got != 51 {
			t.Fatalf("%d fields", got)
		}
		r.mustQueue(other)
	})
}

// Redisson's waiters listen to the channel of the lock: it is left to them for a while, and not
// again for some releases. lib/yield.lua has the rule.
func TestRWRedissonHasItsTurn(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.goesOn() // its turn ends
		next := r.present(rwChannel)
		look := "relock_session:" + session("s") + " look "
		w, a, b := r.writer(1), r.reader(2), r.writer(3)
		r.writes(w)
		r.queues(a, b)
		r.end(w)
		r.held()
		for _, want := range []string{rwChannel + " 1", rwChannel + " 00", look + a.ID} {
			if got := next(); got != want {
				t.Fatalf("message %q, want %q", got, want)
			}
		}
		patient(r)
		r.looksFor(Theirs, a)
		r.looksFor(0, b)
		r.queues(r.reader(4), r.writer(5))
		r.held()
		r.yields("left", -time.Second) // they have not used it
		r.looksFor(0, b)
		r.held(a) // it was the readers' turn, of those that queued when the writer left
		r.mustQueue(b, r.writer(5), r.reader(4))
		r.end(a)
		r.held(b) // not left to Redisson again so soon
		r.end(b)
		r.held(r.reader(4))

		// A writer of Redisson has come: from then on the first of the queue listens.
		r.must("FLUSHALL")
		r.redissonWrites(redissonID, 1, time.Minute)
		patient(r)
		r.queues(a, b)
		if got := r.text("GET", rwYield); !strings.HasPrefix(got, "theirs ") {
			t.Fatalf("its turn is not noted: %q", got)
		}
		r.looksFor(Theirs, b)
		r.looksFor(0, a)
		r.must("DEL", "a")
		r.looksFor(0, a)
		r.held(b)
	})
}

// What a hand-over costs does not depend on how many queue.
func TestRWAHandOverCostsTheSameHoweverManyQueue(t *testing.T) {
	r := costRig(t)
	r.present()
	var few int64
	for _, n := range []int{2, 128, 1000} {
		r.name = fmt.Sprint("lock", n)
		r.writes(r.writer(0))
		for i := 1; i <= n; i++ {
			r.queues(r.writer(i))
		}
		cost := r.cost(func() {
			for i := range 2 {
				r.end(r.writer(i))
			}
		})
		t.Logf("beside %d: %d commands, %v", n, cost.commands/2, cost.scripts/2)
		if few == 0 {
			few = cost.commands
		}
		if cost.commands > few+2 || few > 2*22 { // a token that follows another faster than the clock takes one more
			t.Errorf("beside %d writers two hand-overs take %d commands, beside two %d", n, cost.commands, few)
		}
	}
	for _, n := range []int{1, 128, 1000} {
		r.name = fmt.Sprint("readers", n)
		w := r.writer(0)
		r.writes(w)
		for i := range n {
			l := r.reader(i)
			l.ID = fmt.Sprintf("%08x-0000-8000-8000-000000000000:1", i)
			r.queues(l)
		}
		r.yields("ours", 0)
		r.PubSub = ClusterWide // they count as being there
		cost := r.cost(func() { r.end(w) })
		r.PubSub = Plainly
		t.Logf("to %d readers: %d commands, %v", n, cost.commands, cost.scripts)
		if cost.commands > 30+2*100 {
			t.Errorf("letting in %d readers takes %d commands", n, cost.commands)
		}
	}
}
