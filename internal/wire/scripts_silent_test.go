package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process that stands still costs one claim, however many of its waiters there are, also if the first to find its lapsed
// claim is a waiter of Redisson's.
func TestFrozenWaitersCostOneClaimBesideRedisson(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		const theirs = "11111111-2222-4333-8444-555555555555:1"
		r.comes("a")
		r.comes("b")
		r.enters("h", 1, false)
		for n := range 5 {
			r.enters("a", n, true)
		}
		r.enters("b", 1, true)
		r.end(r.of("h", 1))
		r.age("a", 1, 2, 3, 4) // it has stood still for a minute
		lapsed := 0
		for range 5 {
			if _, has := r.hash("a")[id("b:1")]; has {
				break
			}
			lapsed++
			r.must("DEL", "a") // the claim lapses,
			r.must("HSET", "a", theirs, "1")
			r.must("PEXPIRE", "a", "30000") // and Redisson comes first
			r.looksFor(r.of("b", 1))
			r.must("DEL", "a") // it releases
			r.looksFor(r.of("b", 1))
		}
		require.LessOrEqual(t, lapsed, 1, "claims of a session that was not seen for a minute")
	})
}

// Each reader that asked, and each look at a lock that is read, used to read the whole set of the sessions that wait.
func TestLookCostsTheSameHoweverManyWait(t *testing.T) {
	cost := make(map[string]map[int]time.Duration)
	for _, n := range []int{10, 10_000} {
		r := costRig(t)
		r.present()
		reader := r.reader(1)
		r.reads(reader, ReadJoin)
		first := r.writer(2)
		r.refused(first, time.Millisecond, time.Minute)
		r.must("EVAL", `local t = redis.call('time')
for n = 1, tonumber(ARGV[1]) do
  redis.call('zadd', KEYS[1], t[1] * 1000, string.format('%08x-0000-8000-8000-000000000000', n))
end
redis.call('pexpire', KEYS[1], 5000)`, "1", rwSeen, fmt.Sprint(n))
		for what, f := range map[string]func(i int){
			"look": func(int) { r.looksFor(0, first) },
			"read": func(i int) { r.rlock(r.reader(100+i), nil, false) },
		} {
			var all []time.Duration
			for i := range 30 {
				all = append(all, r.cost(func() { f(i) }).scripts)
			}
			if cost[what] == nil {
				cost[what] = make(map[int]time.Duration)
			}
			cost[what][n] = median(all)
		}
	}
	for what, c := range cost {
		assert.Less(t, c[10_000], 5*c[10]+200*time.Microsecond, what)
	}
}

// A user without the right to relock_seen never got a free lock: the look could not be recorded, found that its session
// was not seen, and had itself stand back.
func TestWaiterWhoseLooksAreNotRecordedHasItsTurn(t *testing.T) {
	r := &placesRig{&rwRig{NewRig(t), "a"}, nil}
	r.conn, _ = r.Client.Dedicate()
	r.comes("a")
	r.enters("h", 1, false)
	r.enters("a", 1, true)
	r.age("a", 1)
	user := []string{"ACL", "SETUSER", "default", "resetkeys", "~a", "~relock_fence:*", "~relock_queue:*"}
	if seven := append(user, "%R~relock_seen:*"); r.Do(seven...).Error() != nil {
		r.must(user...) // Redis 6.2 knows no right to read alone
	}
	r.must("DEL", "a")
	for range 3 {
		r.looksFor(r.of("a", 1))
	}
	require.Contains(t, r.hash("a"), id("a:1"))
}
