package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An RFairLock tells of its release only the next of its kind: Redisson had the lock hundreds of times
// for each hold of relock.
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

// A rare RFairLock came and went between two looks of relock's head. Nothing was left to it for 100 ms
// from then on.
func TestLockIsLeftAgainToAnRFairLockThatCameAndWentUnseen(t *testing.T) {
	t.Parallel()
	r := &rwRig{NewRig(t), "a"}
	r.listen("relock_session:"+session("s"), "redisson_lock__channel:{a}:j:1")
	r.must("RPUSH", "redisson_lock_queue:{a}", "j:1")
	has(Plain, 1)(r)
	require.Equal(t, "taken", queues(2)(r))
	ends(Plain, 1)(r)
	require.Zero(t, r.int("EXISTS", "a"), "the lock is not left to Redisson")
	r.yields("j:1") // for longer than a slow machine takes
	require.Equal(t, "taken", looks(2)(r), "the lock is not reserved")

	r.must("LPOP", "redisson_lock_queue:{a}")
	require.Contains(t, looks(2)(r), "granted")
	require.Len(t, strings.Fields(r.text("GET", "relock_yield:{a}")), 3, "how long Redisson had the lock is not kept")
}

// Sessions of relock whose waiters have heard of a release of Redisson listen to the lock's channel for a
// second. Others left the lock to them, and then nothing to the head of Redisson's queue for 100 ms.
func TestHeadOfRedissonsQueueHasItsTurnAfterThatOfListeners(t *testing.T) {
	t.Parallel()
	r := &rwRig{NewRig(t), "a"}
	r.listen("relock_session:"+session("s"), "redisson_lock__channel:{a}", "redisson_lock__channel:{a}:j:1")
	has(Plain, 1)(r)
	require.Equal(t, "taken", queues(2)(r))
	r.yields("*")
	require.Equal(t, "told 0", ends(Plain, 1)(r), "the listeners have had their turn")
	r.must("RPUSH", "redisson_lock_queue:{a}", "j:1")
	require.Equal(t, "taken", queues(3)(r))
	ends(Plain, 2)(r)
	require.Zero(t, r.int("EXISTS", "a"), "the lock is not left to the head")
	require.Contains(t, r.text("GET", "relock_yield:{a}"), "j:1")
}

// A turn ends by the server's clock, also where keys do not expire by themselves.
func TestRWTurnEndsWhereItsKeyDoesNotExpire(t *testing.T) {
	t.Parallel()
	r := &rwRig{NewRig(t), "a"}
	r.present(rwChannel)
	has(Write, 1)(r)
	wants(Write, 2)(r)
	r.yielded("*", -time.Second)
	ends(Write, 1)(r)
	require.Zero(t, r.int("EXISTS", "a"), "the lock is not left to Redisson again")
	r.yielded("*", -time.Second)
	require.Contains(t, looksRW(Write, 2)(r), "granted")
}
