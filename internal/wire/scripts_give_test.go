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
		for _, kind := range []Kind{Plain, Write} {
			l := r.lease(kind, 1)
			r.must("FLUSHALL")
			r.present(l.Keys.Channel)
			has(kind, 1)(r)
			r.queues(r.lease(kind, 2))
			r.end(l)
			require.Zero(t, r.int("EXISTS", "a"), "the lock is not left to Redisson")
			r.mustNear("the queue", r.pttl(l.Keys.aux), 15*time.Second)
		}
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
