package wire

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/stretchr/testify/require"
)

// scriptCase is one call of a script, in one state of Redis.
type scriptCase struct {
	name   string
	before func(r *rig)
	call   func(r *rig) string
	first  string // reply, or what it begins with
	second string
}

// same is the reply to a second call that is the same.
const same = ""

func nothing(*rig) {}

func all(fs ...func(r *rig)) func(r *rig) {
	return func(r *rig) {
		for _, f := range fs {
			f(r)
		}
	}
}

// does is a call whose reply does not matter.
func does(call func(r *rig) string) func(r *rig) { return func(r *rig) { call(r) } }

// runs is a command.
func runs(args ...string) func(r *rig) { return func(r *rig) { r.must(args...) } }

func del(key string) func(r *rig) { return runs("DEL", key) }

// said tells what a reply says.
func said(reply int64) string {
	switch {
	case reply == LostPlace:
		return "lost"
	case reply == Theirs:
		return "theirs"
	case reply <= 0:
		return "taken"
	case reply > int64(ReadGone):
		return fmt.Sprint("granted ", reply)
	}
	return [...]string{ReadJoin: "join", readAlone: "alone", ReadOther: "other", ReadGone: "gone"}[reply]
}

// has takes the n-th hold of a kind, which must be free. It is not Redisson's turn.
func has(k Kind, n int) func(r *rig) {
	return func(r *rig) {
		theirsWas(r)
		r.take(r.lease(k, n))
		r.must("DEL", "relock_yield:{"+r.name+"}")
	}
}

// wants asks for what must be taken, and queues.
func wants(k Kind, n int) func(r *rig) {
	return func(r *rig) { require.Equal(r.t, "taken", asks(k, n)(r), "%d", n) }
}

// asks asks for the n-th hold of a kind, and queues if it is taken. tries does not.
func asks(k Kind, n int) func(r *rig) string  { return asksFor(k, n, true) }
func tries(k Kind, n int) func(r *rig) string { return asksFor(k, n, false) }

func asksFor(k Kind, n int, wait bool) func(r *rig) string {
	return func(r *rig) string {
		reply, _, err := r.try(r.lease(k, n), wait)
		require.NoError(r.t, err)
		return said(reply)
	}
}

// absent queues the n-th waiter of a session that is not there.
func absent(k Kind, n int) func(r *rig) {
	return func(r *rig) {
		_, _, err := r.try(of("x", r.lease(k, n)), true)
		require.NoError(r.t, err)
	}
}

// absentMany queues more such waiters than are remembered, before all others.
var absentMany = runs("EVAL", "for n = 1, 10250 do redis.call('zadd', KEYS[1], n, ARGV[1] .. n) end", "1",
	plainQueue, session("x")+":")

// nearIndex fills the queue up to the place before the one at which Redis is made to index it.
var nearIndex = runs("EVAL", `for n = 1, 32 do redis.call('zadd', KEYS[1], n, ARGV[1] .. n) end
local hours = tonumber(redis.call('time')[1]) + 7200
redis.call('zadd', KEYS[1], string.format('%.0f', hours * 1000000 - hours * 1000000 % 64 + 63), ARGV[1] .. '0')`, "1",
	plainQueue, session("x")+":")

// looks looks after the n-th waiter of a kind.
func looks(k Kind, n int) func(r *rig) string {
	return func(r *rig) string { return said(r.look(r.lease(k, n))[0]) }
}

// joins asks for the by-th reader whether it may join the n-th.
func joins(n, by int) func(r *rig) string {
	return func(r *rig) string { return said(int64(r.join(r.reader(n), r.reader(by), true))) }
}

// ends ends the n-th hold, or its place.
func ends(k Kind, n int) func(r *rig) string {
	return func(r *rig) string { return releases(r, r.lease(k, n)) }
}

// rests is ends that leaves the lock to n + 50 for a while.
func rests(k Kind, n int) func(r *rig) string {
	return func(r *rig) string {
		l := r.lease(k, n)
		l.Rest = &Rest{r.lease(k, n+50).ID, time.Minute}
		return releases(r, l)
	}
}

// handsOff gives the n-th hold of a Mutex to another.
func handsOff(n, to int) func(r *rig) string {
	return func(r *rig) string {
		token, now, err := r.Handoff(ctx0, r.lease(Plain, n).ID, r.lease(Plain, to), false)
		require.NoError(r.t, err)
		require.Equal(r.t, token == 0, now > 0)
		return map[bool]string{true: "gone", false: said(token)}[token == 0]
	}
}

func releases(r *rig, l *Ref) string {
	told, err := r.Release(ctx0, l)
	require.NoError(r.t, err)
	return fmt.Sprint("told ", told)
}

func renews(k Kind, n int) func(r *rig) string {
	return func(r *rig) string {
		got := r.Renew(ctx0, []*Ref{r.lease(k, n)})[0]
		require.NoError(r.t, got.Err)
		return map[bool]string{true: "gone", false: "kept"}[got.Gone]
	}
}

// raises raises the token where the n-th hold is.
func raises(n int, token int64) func(r *rig) string {
	return func(r *rig) string {
		held, err := r.Raise(ctx0, r.lease(Plain, n), token)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint("held ", held)
	}
}

func inspects(r *rig) string {
	in, err := r.Inspect(ctx0, "a")
	require.NoError(r.t, err)
	return fmt.Sprintf("waiters %d, fields %d", in.Waiters, len(in.Fields))
}

func forces(r *rig) string { return forcesFrom()(r) }

// forcesFrom opens the lock if nobody holds it but some.
func forcesFrom(holders ...int) func(r *rig) string {
	return func(r *rig) string {
		var ids []string
		for _, n := range holders {
			ids = append(ids, r.reader(n).ID)
		}
		was, err := r.Force(ctx0, "a", ids...)
		if errors.Is(err, lockerr.ErrNotLock) {
			return "no lock"
		} else if errors.Is(err, ErrOtherHolder) {
			return "other"
		}
		require.NoError(r.t, err)
		return fmt.Sprint("opened ", was)
	}
}

// readsUnder asks for the n-th read hold under the write hold of the same owner. under must get it.
func readsUnder(n, writer int) func(r *rig) string {
	return func(r *rig) string { return said(int64(r.under(r.reader(n), r.writer(writer)))) }
}
func under(n, writer int) func(r *rig) {
	return func(r *rig) { require.Equal(r.t, "join", readsUnder(n, writer)(r)) }
}

// added is a field that an application adds to the key of a held lock.
var added = runs("HSET", "a", "status", "paid")

// Redisson holds the lock, or the write side of it.
func redissonHas(r *rig)    { r.redissonHas(Plain, time.Minute) }
func redissonWrites(r *rig) { r.redissonHas(Write, time.Minute) }

// redisson is a reader of Redisson.
func redisson(r *rig) {
	r.redissonReads(id("j:1"), 1, 50*time.Second)
	r.endTogether("a", timeoutOf("j:1", 1))
}

// keyless has that reader live by the lock's expiry alone.
func keyless(r *rig) {
	r.must("DEL", timeoutOf("j:1", 1))
	r.redissonRenews(time.Minute)
}

// listens subscribes as a waiter of Redisson does.
func listens(r *rig) { r.listen(plainChannel) }

// patient leaves the lock to Redisson for longer than a slow machine takes.
func patient(r *rig) { r.yields("left", 800*time.Millisecond) }

// theirsWas has it that Redisson has had its turn a moment ago.
func theirsWas(r *rig) { r.yields("ours", 0) }

// dead ends the lease of the n-th read hold, as if its time were over. The lock lives
// on by that of another.
func dead(n, living int) func(r *rig) {
	return func(r *rig) {
		dead, alive := r.reader(n), r.reader(living)
		r.must("DEL", dead.Keys.timeout(dead.ID))
		r.must("ZADD", rwReaders, "XX", "1", dead.ID)
		r.endTogether("a", alive.Keys.timeout(alive.ID))
	}
}

// endTogether has keys expire in the same millisecond, however slow the machine is. On
// miniredis times to live stand still.
func (r *rig) endTogether(keys ...string) {
	r.t.Helper()
	command, end := "PEXPIREAT", fmt.Sprint(time.Now().Add(50*time.Second).UnixMilli())
	if r.mini {
		command, end = "PEXPIRE", "50000"
	}
	for _, key := range keys {
		require.EqualValues(r.t, 1, r.int(command, key, end), "there is no %s", key)
	}
}

// frozen has the first writer wait for long, and no session have looked lately.
func frozen(r *rig) {
	r.must("ZADD", rwQueue, "2000000", r.texts("ZRANGE", rwQueue, "0", "0")[0])
	r.must("DEL", rwSeen)
}

// handsOver ends a hold as if it were not Redisson's turn.
func handsOver(k Kind, n int) func(r *rig) { return all(theirsWas, does(ends(k, n)), del(yieldKey)) }

// crowdWants queues so many readers, from the thousandth on.
func crowdWants(n int) func(r *rig) {
	return func(r *rig) {
		for i := range n {
			wants(Read, 1000+i)(r)
		}
	}
}

// lapsed has the lease of the n-th permit ended. (miniredis says 1e+12 for a round number, which its Lua does not read.)
func lapsed(n int) func(r *rig) {
	return func(r *rig) { r.must("ZADD", "a", "XX", "1000000000001", r.lease(Semaphore, n).ID) }
}

// silentFirst has the first of the queue wait for long, and no session have looked lately.
func silentFirst(r *rig) {
	r.must("ZADD", plainQueue, "2000000", r.texts("ZRANGE", plainQueue, "0", "0")[0])
	r.must("DEL", "relock_seen:{a}")
}

// full has the first n permits of a semaphore taken.
func full(r *rig) { all(has(Semaphore, 1), has(Semaphore, 2))(r) }

// asksOf asks for the n-th permit of a semaphore of so many.
func asksOf(permits, n int) func(r *rig) string {
	return func(r *rig) string {
		l := r.lease(Semaphore, n)
		l.Permits = permits
		reply, _, err := r.try(l, true)
		require.NoError(r.t, err)
		return strings.Fields(said(reply))[0]
	}
}

// tokenless is the beginning of the reply, whose token differs when it is sent again.
func tokenless(call func(r *rig) string) func(r *rig) string {
	return func(r *rig) string { return strings.Fields(call(r))[0] }
}

// slots are who holds which slot of the semaphore, and the limit.
func (r *rig) slots() (slots map[int]string, permits int) {
	r.t.Helper()
	in, err := r.Inspect(ctx0, "a")
	require.NoError(r.t, err)
	slots = make(map[int]string)
	for id, slot := range in.Fields {
		require.NotContains(r.t, slots, slot, "two have a slot")
		slots[slot] = id
	}
	return slots, in.Permits
}
