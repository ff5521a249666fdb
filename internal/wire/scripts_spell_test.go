package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An RFairLock that nobody of its kind queues for is released without a message: its owner had the
// lock hundreds of times for each hold of relock.
func TestSpellOfAnRFairLockIsMadeUpFor(t *testing.T) {
	t.Parallel()
	r := &rwRig{NewRig(t), "a"}
	r.listen("relock_session:"+session("s"), "redisson_lock__channel:{a}:j:1")
	queued := func() { r.must("RPUSH", "redisson_lock_queue:{a}", "j:1") }
	// On a slow machine the key must not expire too early.
	lasts := func() { r.must("PEXPIRE", "relock_yield:{a}", "50000") }

	has(Plain, 1)(r)
	require.Equal(t, "taken", queues(2)(r))
	queued()
	ends(Plain, 1)(r)
	require.Zero(t, r.int("EXISTS", "a"), "the lock is not left to Redisson")
	lasts()
	r.must("DEL", "redisson_lock_queue:{a}")
	redissonHas(r)
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, "theirs", looks(2)(r))
	lasts()
	r.must("DEL", "a")
	require.Contains(t, looks(2)(r), "granted")
	require.Equal(t, "taken", queues(3)(r))
	queued()
	require.Equal(t, "told 0", ends(Fair, 2)(r))
	require.Contains(t, looks(3)(r), "granted", "Redisson has had its turn")

	time.Sleep(110 * time.Millisecond)
	require.Equal(t, "taken", queues(4)(r))
	ends(Fair, 3)(r)
	require.Zero(t, r.int("EXISTS", "a"), "the lock is not left to Redisson again")
}
