package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lockerr"
)

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

// runs is a command.
func runs(args ...string) func(r *rwRig) { return func(r *rwRig) { r.must(args...) } }

// has takes the n-th hold of a kind, which must be free. It is not Redisson's turn.
func has(k Kind, n int) func(r *rwRig) {
	return func(r *rwRig) {
		theirsWas(r)
		defer r.must("DEL", "relock_yield:{"+r.name+"}")
		if got := asks(k, n)(r); got == "taken" {
			r.t.Fatalf("%d is %s", n, got)
		}
	}
}

// wants asks for what must be taken, and waits.
func wants(k Kind, n int) func(r *rwRig) {
	return func(r *rwRig) {
		if got := asks(k, n)(r); got != "taken" {
			r.t.Fatalf("%d is %s", n, got)
		}
	}
}

var rwReplies = map[int64]string{0: "taken", ReadJoin: "join", readAlone: "alone", ReadOther: "other", ReadGone: "gone"}

// asks asks for the n-th hold of a kind, and queues if it is a reader or writer. tries does not.
func asks(k Kind, n int) func(r *rwRig) string  { return asksFor(k, n, true) }
func tries(k Kind, n int) func(r *rwRig) string { return asksFor(k, n, false) }

func asksFor(k Kind, n int, queue bool) func(r *rwRig) string {
	return func(r *rwRig) string {
		l := r.lease(k, n)
		switch k {
		case Read:
			reply, _ := r.rlock(l, nil, queue)
			return rwReplies[reply]
		}
		return r.grant(r.Acquire(ctx0, l, Millis(l.Length), queue && k == Write))
	}
}

func queues(n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		l := r.lease(Fair, n)
		return r.grant(r.Acquire(ctx0, l, Millis(l.Length), true))
	}
}

func looks(n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		replies, errs := r.Probe(ctx0, []*Ref{r.lease(Fair, n)})
		if replies[0] == LostPlace && errs[0] == nil {
			return "lost"
		}
		if replies[0] == Theirs {
			return "theirs"
		}
		return r.grant(Granted(replies[0], errs[0]))
	}
}

// joins asks for the by-th reader whether it may join the n-th.
func joins(n, by int) func(r *rwRig) string {
	return func(r *rwRig) string {
		reply, _, err := r.AcquireRead(ctx0, r.reader(by), "30000", "", r.reader(n).ID, true)
		if err != nil {
			r.t.Fatal(err)
		}
		return rwReplies[reply]
	}
}

// looksRW looks after the n-th waiter of a side.
func looksRW(k Kind, n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		replies, errs := r.Probe(ctx0, []*Ref{r.lease(k, n)})
		switch got, _, err := Granted(replies[0], errs[0]); {
		case err != nil:
			r.t.Fatal(err)
		case replies[0] == LostPlace:
			return "lost"
		case replies[0] == Theirs:
			return "theirs"
		case got > 2:
			return fmt.Sprint("granted ", got)
		default:
			return rwReplies[got]
		}
		return ""
	}
}

func ends(k Kind, n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		told, err := r.Release(ctx0, r.lease(k, n), nil)
		if err != nil {
			r.t.Fatal(err)
		}
		return fmt.Sprint("told ", told)
	}
}

// endsFor ends the n-th hold and queues the next one of its process.
func endsFor(k Kind, n, next int) func(r *rwRig) string {
	return func(r *rwRig) string {
		told, err := r.Release(ctx0, r.lease(k, n), r.lease(k, next))
		if err != nil {
			r.t.Fatal(err)
		}
		return fmt.Sprint("told ", told)
	}
}

// redissonHas is a hold of Redisson.
func redissonHas(r *rwRig) {
	r.must("HSET", "a", "1b3c0c4e-9e5b-4f0a-8a3e-0d3f4f5a6b7c:47", "1")
	r.must("PEXPIRE", "a", "30000")
}

// listens subscribes as a waiter of Redisson does.
func listens(r *rwRig) { r.listen("redisson_lock__channel:{a}") }

// patient leaves the lock to Redisson for longer than a slow machine takes.
func patient(r *rwRig) { r.yields("left", 800*time.Millisecond) }

// yields stores whose turn it is, as lib/yield.lua does, at a time from now by the server's clock.
func (r *rwRig) yields(what string, at time.Duration) {
	reply := r.must("TIME")
	now, err := reply.AsStrSlice()
	if err != nil {
		r.t.Fatal(err)
	}
	seconds, _ := strconv.ParseInt(now[0], 10, 64)
	micros, _ := strconv.ParseInt(now[1], 10, 64)
	then := time.Unix(seconds, micros*1000).Add(at).UnixMilli()
	text := fmt.Sprint(what, " ", then, " 8 ", then)
	if what == "ours" {
		text = "ours 8 8 0"
	}
	r.must("SET", "relock_yield:{"+r.name+"}", text, "PX", "30000")
}

func renews(k Kind, n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		got := r.Renew(ctx0, []*Ref{r.lease(k, n)})[0]
		if got.Err != nil {
			r.t.Fatal(got.Err)
		}
		return map[bool]string{true: "gone", false: "kept"}[got.Gone]
	}
}

func inspects(r *rwRig) string {
	in, err := r.Inspect(ctx0, "a")
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("waiters %d, fields %d", in.Waiters, len(in.Fields))
}

// under takes the n-th read hold under the write hold of the same owner.
func under(n, writer int) func(r *rwRig) {
	return func(r *rwRig) {
		if reply, _ := r.rlock(r.reader(n), r.writer(writer), false); reply != ReadJoin {
			r.t.Fatalf("%d is %s", n, rwReplies[reply])
		}
	}
}

// redisson is a reader of Redisson.
func redisson(r *rwRig) {
	r.redissonReads(id("j:1"), 1, 50*time.Second)
	r.endTogether("a", "{a}:"+id("j:1")+":rwlock_timeout:1")
}

// keyless has that reader live by the lock's expiry alone.
func keyless(r *rwRig) {
	r.must("DEL", "{a}:"+id("j:1")+":rwlock_timeout:1")
	r.redissonRenews(time.Minute)
}

// dead ends the lease of the n-th read hold, as if its time were over. The lock lives
// on by that of another.
func dead(n, living int) func(r *rwRig) {
	return func(r *rwRig) {
		timeout := r.reader(n).Keys.timeout
		r.must("DEL", timeout(r.reader(n).ID))
		r.must("ZADD", rwReaders, "XX", "1", r.reader(n).ID)
		r.endTogether("a", timeout(r.reader(living).ID))
	}
}

// endTogether has keys expire in the same millisecond, however slow the machine is. On
// miniredis times to live stand still.
func (r *rwRig) endTogether(keys ...string) {
	r.t.Helper()
	command, end := "PEXPIREAT", fmt.Sprint(time.Now().Add(50*time.Second).UnixMilli())
	if r.mini {
		command, end = "PEXPIRE", "50000"
	}
	for _, key := range keys {
		if r.int(command, key, end) != 1 {
			r.t.Fatalf("there is no %s", key)
		}
	}
}

// rwAbsent queues the n-th waiter of a side whose session is not there.
func rwAbsent(k Kind, n int) func(r *rwRig) {
	return func(r *rwRig) {
		l := r.lease(k, n)
		l.ID = strings.Replace(l.ID, session("s"), session("x"), 1)
		if k == Read {
			r.rlock(l, nil, true)
		} else {
			r.lock(l, true)
		}
	}
}

// frozen has the first writer wait for long, and no session have looked lately.
func frozen(r *rwRig) {
	first := r.must("ZRANGE", rwQueue, "0", "0")
	place, _ := first.AsStrSlice()
	r.must("ZADD", rwQueue, "2000000", place[0])
	r.must("DEL", rwSeen)
}

// theirsWas has it that Redisson has had its turn a moment ago.
func theirsWas(r *rwRig) { r.yields("ours", 0) }

// handsOver ends a hold as if it were not Redisson's turn.
func handsOver(k Kind, n int) func(r *rwRig) { return all(theirsWas, does(ends(k, n)), del(rwYield)) }

// crowdWants queues so many readers, from the thousandth on.
func crowdWants(n int) func(r *rwRig) {
	return func(r *rwRig) {
		for i := range n {
			wants(Read, 1000+i)(r)
		}
	}
}

func redissonWrites(r *rwRig) { r.redissonWrites(redissonID, 1, time.Minute) }

// redissonID is a hold id of a client of Redisson, whose UUIDs are of version 4.
const redissonID = "6a7f3c52-0b1d-4e8f-9a3b-5c2d1e0f4a6b:7"

// absent queues the n-th waiter of a session that is not there.
func absent(n int) func(r *rwRig) {
	return func(r *rwRig) { (&placesRig{rwRig: r}).enters("x", n, true) }
}

// looksOf looks for the n-th waiter of a session.
func looksOf(short string, n int) func(r *rwRig) string {
	return func(r *rwRig) string {
		tokens := (&placesRig{rwRig: r}).looksFor((&placesRig{rwRig: r}).of(short, n))
		return r.grant(tokens[0], nil, nil)
	}
}

func forces(r *rwRig) string { return forcesFrom()(r) }

// forcesFrom opens the lock if nobody holds it but some.
func forcesFrom(holders ...int) func(r *rwRig) string {
	return func(r *rwRig) string {
		var ids []string
		for _, n := range holders {
			ids = append(ids, r.reader(n).ID)
		}
		switch was, err := r.Force(ctx0, "a", ids...); {
		case errors.Is(err, lockerr.ErrNotLock):
			return "no lock"
		case errors.Is(err, ErrOtherHolder):
			return "other"
		case err != nil:
			r.t.Fatal(err)
			return ""
		default:
			return fmt.Sprint("opened ", was)
		}
	}
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
