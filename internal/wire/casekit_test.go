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
	first  string // what the reply begins with
	second string // the reply to a second call
}

const (
	same = ""  // the second call has the same reply
	once = "-" // the call is never sent again, or the state does not last
)

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
func said(r Reply) string {
	switch {
	case r.Gone:
		return "gone"
	case r.Read == ReadOther:
		return "other"
	case r.Read == ReadGone:
		return "other is gone"
	case r.Read == ReadHeld && r.Wanted:
		return "reads alone"
	case r.Read == ReadHeld:
		return "reads"
	case r.Granted:
		return fmt.Sprint("granted ", r.Token)
	case r.Theirs:
		return "theirs"
	}
	return "taken"
}

// word is the beginning of a reply whose token differs when the call is sent again.
func word(call func(r *rig) string) func(r *rig) string {
	return func(r *rig) string { return strings.Fields(call(r))[0] }
}

// has takes the n-th hold of a kind, which must be free; hasOf that of another session.
func has(k Kind, n int) func(r *rig) { return func(r *rig) { r.take(r.lease(k, n)) } }
func hasOf(short string, k Kind, n int) func(r *rig) {
	return func(r *rig) { r.take(of(short, r.lease(k, n))) }
}

// wants asks for what must be taken, and queues; absent does so for a session that is not there.
func wants(k Kind, n int) func(r *rig) { return func(r *rig) { r.queues(r.lease(k, n)) } }
func absent(k Kind, n int) func(r *rig) {
	return func(r *rig) { r.asks(of("x", r.lease(k, n))) }
}

// asks asks for the n-th hold of a kind, and queues if it is taken. tries does not queue.
func asks(k Kind, n int) func(r *rig) string {
	return func(r *rig) string { return said(r.asks(r.lease(k, n))) }
}
func tries(k Kind, n int) func(r *rig) string {
	return func(r *rig) string { return said(r.tries(r.lease(k, n))) }
}

// polls polls for waiters of a kind in one script, and returns the reply to the first.
func polls(k Kind, ns ...int) func(r *rig) string {
	return func(r *rig) string {
		var ls []*Ref
		for _, n := range ns {
			ls = append(ls, r.lease(k, n))
		}
		return said(r.polls(ls...))
	}
}

// joins asks for the by-th reader whether it may join the n-th.
func joins(n, by int) func(r *rig) string {
	return func(r *rig) string {
		reply, err := r.ask(r.reader(by), Ask{Join: r.reader(n).ID})
		require.NoError(r.t, err)
		return said(reply)
	}
}

// readsUnder asks for the n-th read hold under the write hold of the same owner. under must get it.
func readsUnder(n, writer int) func(r *rig) string {
	return func(r *rig) string {
		reply, err := r.ask(r.reader(n), Ask{Writer: r.writer(writer).ID})
		require.NoError(r.t, err)
		return said(reply)
	}
}
func under(n, writer int) func(r *rig) {
	return func(r *rig) { r.under(r.reader(n), r.writer(writer)) }
}

// ends ends the n-th hold, or its wait; rests has the lock stay taken for a while.
func ends(k Kind, n int) func(r *rig) string {
	return func(r *rig) string { return releases(r, r.lease(k, n)) }
}
func rests(k Kind, n int) func(r *rig) string {
	return func(r *rig) string {
		l := r.lease(k, n)
		l.Rest = time.Minute
		return releases(r, l)
	}
}

func releases(r *rig, l *Ref) string {
	told, err := r.Release(ctx0, l)
	if errors.As(err, new(Damage)) {
		return "damaged"
	}
	require.NoError(r.t, err)
	return fmt.Sprint("told ", told)
}

// handsOff gives the n-th hold of a Mutex to another, and handsTicket to a ticket.
func handsOff(n, to int) func(r *rig) string {
	return func(r *rig) string {
		token, now, err := r.Handoff(ctx0, r.lease(Plain, n).ID, r.lease(Plain, to), false, "")
		require.NoError(r.t, err)
		require.Equal(r.t, token == 0, now > 0)
		return map[bool]string{true: "gone", false: fmt.Sprint("granted ", token)}[token == 0]
	}
}
func handsTicket(n, to int) func(r *rig) string {
	return func(r *rig) string {
		at, _, err := r.Handoff(ctx0, r.lease(Plain, n).ID, r.lease(Plain, to), true, "")
		require.NoError(r.t, err)
		return map[bool]string{true: "gone", false: "at"}[at == 0]
	}
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
			return "not a lock"
		} else if errors.Is(err, ErrOtherHolder) {
			return "other"
		}
		require.NoError(r.t, err)
		return fmt.Sprint("opened ", was)
	}
}

// Redisson holds the lock, or the write side of it, or reads.
func redissonHas(r *rig)    { r.redissonHas(Plain, time.Minute) }
func redissonWrites(r *rig) { r.redissonHas(Write, time.Minute) }
func redissonReads(r *rig)  { r.redissonReads(time.Minute) }

// turnSince stores an entry of Redisson whose turn began so long ago. A negative time is until the next turn.
func turnSince(queue string, ago time.Duration) func(r *rig) {
	return func(r *rig) {
		score := "-us + tonumber(ARGV[1])"
		if ago < 0 {
			score = "us - tonumber(ARGV[1])"
		}
		r.must("EVAL", `local t = redis.call('time')
local us = t[1] * 1000000 + t[2]
return redis.call('zadd', KEYS[1], string.format('%.0f', `+score+`), 'redisson')`,
			"1", queue, fmt.Sprint(ago.Microseconds()))
	}
}

// dead adds so many entries of a session that is not there to a queue, before all others.
func dead(queue string, entries int, suffix string) func(r *rig) {
	return runs("EVAL", "for n = 1, tonumber(ARGV[2]) do redis.call('zadd', KEYS[1], n, ARGV[1] .. n .. ARGV[3]) end", "1",
		queue, session("x")+":", fmt.Sprint(entries), suffix)
}

// over has the lease of the n-th permit ended. (miniredis says 1e+12 for a round number, which its Lua does not read.)
func over(n int) func(r *rig) {
	return func(r *rig) { r.must("ZADD", "a", "XX", "1000000000001", r.lease(Semaphore, n).ID) }
}

// full has the first two permits of a semaphore taken.
func full(r *rig) { all(has(Semaphore, 1), has(Semaphore, 2))(r) }

// asksOf asks for the n-th permit of a semaphore of so many.
func asksOf(permits, n int) func(r *rig) string {
	return func(r *rig) string {
		l := r.lease(Semaphore, n)
		l.Permits = permits
		return strings.Fields(said(r.asks(l)))[0]
	}
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
