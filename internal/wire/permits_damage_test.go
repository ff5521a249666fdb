package wire

import (
	"testing"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/stretchr/testify/require"
)

// Members that nobody of relock has added to a semaphore. Two got one slot then, or one more than the limit a permit; and
// ForceUnlock failed with an error of Lua.
func TestDamagedSemaphoreGivesNobodyTooMuch(t *testing.T) {
	const ended, far = "1000000000001", "9000000000000000"
	for name, members := range map[string][]string{
		"a score of a slot":        {"1", "x"},
		"two scores of slots":      {"1", ":x", "1", ":y"},
		"before the limit":         {"-50", "x"},
		"far before the limit":     {"-inf", "x"},
		"an end without a slot":    {ended, "x"},
		"two ends without slots":   {ended, "x", ended, "y"},
		"three ends without slots": {ended, "x", ended, "y", ended, "z"},
		"no end":                   {"inf", "x"},
		"two without an end":       {"inf", "x", far, ""},
		"no limit":                 {"inf", "permits"},
		"a limit like a slot":      {"1", "permits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t) // the scores of miniredis have no such values
			const limit = 4
			permit := func(n int) *Ref {
				l := r.lease(Semaphore, n)
				l.Permits = limit
				return l
			}
			a, b, waiter := permit(1), permit(2), newLease(Fair, "other", 4)
			held := map[int]*Ref{0: a, 1: b}
			r.take(a)
			r.take(b)
			r.take(newLease(Fair, "other", 3))
			r.queues(waiter)
			r.must(append([]string{"ZADD", "a"}, members...)...)
			for n := range 6 {
				l := permit(n + 10)
				if reply, err := r.ask(l, Ask{Queue: n%2 == 0}); err == nil && reply.Granted {
					require.NotContains(t, held, l.Slot, "two have a slot")
					held[l.Slot] = l
				}
			}
			require.LessOrEqual(t, len(held), limit)
			replies, errs := r.Poll(ctx0, []*Ref{permit(10), waiter})
			require.NoError(t, errs[1], "another lock of the batch suffers")
			require.False(t, replies[1].Gone, "another lock of the batch suffers")
			r.renews(a, b)
			for _, l := range held {
				_, _ = r.Release(ctx0, l)
				require.True(t, r.Renew(ctx0, []*Ref{l})[0].Gone, "its permit has not ended")
			}
			if r.int("EXISTS", "a") == 1 && members[0] != "inf" {
				require.Positive(t, r.pttl("a"), "it stays damaged")
			}
			_, err := r.Force(ctx0, "a")
			if err != nil {
				require.ErrorIs(t, err, lockerr.ErrNotLock)
			}
		})
	}
}

// An application's sorted set is no semaphore, even if its first member is the word permits.
func TestRankingWithPermitsIsNoSemaphore(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, member := range []string{"permits", "a game's best player"} {
			r.must("ZADD", "a", "7", member)
			l := r.lease(Semaphore, 1)
			_, err := r.ask(l, Ask{Queue: true})
			require.ErrorIs(t, err, lockerr.ErrNotLock)
			_, err = r.Inspect(ctx0, "a")
			require.ErrorIs(t, err, lockerr.ErrNotLock)
			_, err = r.Force(ctx0, "a")
			require.ErrorIs(t, err, lockerr.ErrNotLock)
			r.gone(l)
			require.Equal(t, []string{member}, r.texts("ZRANGE", "a", "0", "-1"))
			require.Equal(t, []string{"a"}, r.keys())
			r.must("FLUSHALL")
		}
	})
}

// A limit that no semaphore has is not the state of a lock that is held: a reply that overflowed made it an exclusive one.
func TestStrangeLimitIsNotALockThatIsHeld(t *testing.T) {
	r := newRig(t) // the scores of miniredis have no such values
	for _, limit := range []string{"-inf", "-1e300", "-9223372036854775807", "-0.5", "0", "-0"} {
		r.must("ZADD", "a", limit, "permits", "9000000000000000", "x")
		in, err := r.Inspect(ctx0, "a")
		if err != nil {
			require.ErrorIs(t, err, lockerr.ErrNotLock, limit)
		} else {
			require.EqualValues(t, -2, in.TTL, limit)
		}
		r.must("DEL", "a")
	}
	l := r.lease(Semaphore, 1)
	l.Permits = 1<<63 - 1
	r.take(l)
	in, err := r.Inspect(ctx0, "a")
	require.NoError(t, err)
	require.Positive(t, in.Permits)
	require.Equal(t, map[string]int{l.ID: 0}, in.Fields)
}

// The slot of a permit is infinite, which no time of expiry can be. Others get their permits.
func TestInfiniteSlotStopsNoOtherPermit(t *testing.T) {
	r := newRig(t)
	first, second := r.lease(Semaphore, 1), r.lease(Semaphore, 2)
	r.take(first)
	r.must("ZADD", "a", "XX", "inf", ":"+first.ID)
	_, err := r.ask(second, Ask{})
	if err != nil {
		require.ErrorIs(t, err, lockerr.ErrNotLock)
	}
	r.end(first)
	r.end(second)
	r.take(r.lease(Semaphore, 3))
}
