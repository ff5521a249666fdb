package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
)

// freeAgain checks that a lock can be taken before its lease would have ended, and leaves nothing.
func (p *process) freeAgain() {
	p.w.t.Helper()
	ctx, cancel := context.WithTimeout(background, 20*time.Second)
	defer cancel()
	l := p.lock()
	require.NoError(p.w.t, l.Lock(ctx))
	require.NoError(p.w.t, l.Err())
	require.NoError(p.w.t, l.Unlock(ctx))
	time.Sleep(10 * time.Second) // for the release in the background, and less than the lease has left
	require.True(p.w.t, p.w.free())
}

// A hold that was certain when Unlock was called has protected its section to the end: Unlock waits
// for Redis for two seconds, and leaves the release to the background.
func TestUnlockWaitsForRedisForTwoSeconds(t *testing.T) {
	for fault := range outages {
		for _, cancellable := range []bool{false, true} { // the synchronous and the pipelined path of rueidis
			for _, opts := range [][]relock.LockOption{nil, {relock.WithFixedLease(time.Second)}} {
				t.Run(fmt.Sprint(fault, cancellable, len(opts)), func(t *testing.T) {
					onEach(t, func(t *testing.T, w *world) {
						p := w.process()
						ctx, cancel := background, func() {}
						if cancellable {
							ctx, cancel = context.WithCancel(ctx)
						}
						defer cancel()
						l := p.lock(opts...)
						require.NoError(t, l.Lock(ctx))
						time.Sleep(500 * time.Millisecond)
						p.networks(outages[fault])
						require.LessOrEqual(t, took(func() { require.NoError(t, l.Unlock(ctx)) }), 2*time.Second)
						require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
						require.ErrorIs(t, l.Unlock(ctx), relock.ErrNotHeld)
						time.Sleep(3 * time.Second)
						p.heal()
						p.freeAgain()
					})
				})
			}
		}
	}
}

// A hold that had ended before, or that Redis does not have any more, was no protection; nor one whose process stood
// still past the deadline, if the call comes before the watchdog has looked. The observer is told of such a loss, too.
func TestUnlockOfALostHoldSaysSoAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		seen := new(recorder)
		p, still := w.process(relock.WithObserver(seen)), w.process()
		ended := p.held(relock.WithFixedLease(time.Second))
		time.Sleep(time.Second)
		gone := p.held()
		w.do("FLUSHALL")
		late := still.held()
		for _, s := range still.s {
			peek.Session(s).Clock.Skip(certain(lease))
		}
		for _, l := range []relock.Locker{ended, gone, late} {
			require.Zero(t, took(func() { require.ErrorIs(t, l.Unlock(background), relock.ErrLost) }))
			require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		}
		losses := seen.takeLosses()
		require.Len(t, losses, 2)
		require.EqualError(t, losses[1].Cause, "relock: lock lost: it is not in Redis any more")
		p.freeAgain()
	})
}
