package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A release grants the lock for a claim, whatever is left of the lease before.
func TestReleaseGrantsTheLockForAClaim(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present()
		has(Plain, 1)(r)
		require.Equal(t, "taken", queues(2)(r))
		ends(Plain, 1)(r)
		require.Equal(t, map[string]string{id("s:2"): "1"}, r.hash("a"))
		r.mustNear("the claim", r.pttl("a"), ClaimMost)
	})
}

// The queue is that of waiters who may all have died.
func TestQueueExpiresWhileALockIsLeftToRedisson(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present("redisson_lock__channel:{a}")
		has(Plain, 1)(r)
		require.Equal(t, "taken", queues(2)(r))
		ends(Plain, 1)(r)
		require.Zero(t, r.int("EXISTS", "a"), "the lock is not left to Redisson")
		r.mustNear("the queue", r.pttl("relock_queue:{a}"), 15*time.Second)
	})
}

// Redisson may be on its way back: waiters leave it time, and who does not wait has no second chance.
func TestReservedLockIsRefusedToWaitersOnlyWhileNobodyListens(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for kind, waits := range map[Kind]func(n int) func(r *rwRig) string{
			Plain: queues, Write: func(n int) func(r *rwRig) string { return asks(Write, n) }, Read: func(n int) func(r *rwRig) string { return asks(Read, n) },
		} {
			r.must("FLUSHALL")
			patient(r)
			require.Equal(t, "taken", waits(1)(r), kind)
			r.must("FLUSHALL")
			patient(r)
			require.NotEqual(t, "taken", tries(kind, 2)(r), kind)
		}
	})
}

func TestRWAWriterThatIsNotThereIsPassedOver(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present()
		w, next, gone := r.writer(1), r.writer(2), r.writer(3)
		gone.ID = id("x:3:write")
		r.writes(w)
		r.queues(gone, next)
		r.end(w)
		r.held(next)
		r.mustQueue(gone) // it may come back
	})
}

func TestRWWritersLeaveTheLockToRedisson(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present(rwChannel)
		w, next := r.writer(1), r.writer(2)
		r.writes(w)
		r.queues(next)
		r.end(w)
		r.held()
		r.mustNear("the queue", r.pttl(rwQueue), 15*time.Second)
	})
}

func TestRWADowngradeLetsNoWriterIn(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present()
		w, own, next := r.writer(1), r.reader(2), r.writer(3)
		r.writes(w)
		r.rlock(own, w, false)
		r.queues(next)
		r.end(w)
		r.held(own)
		r.mustQueue(next)
	})
}
