package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// closeDuringLock has a new process 10 ms away from Redis begin to lock, and then close; meanwhile
// is called just before that. It returns the lock and what Lock will return.
func closeDuringLock(w *world, ctx context.Context, after, bound time.Duration, meanwhile func(*process)) (relock.Locker, <-chan error) {
	w.process()      // has the servers know the scripts
	p := w.process() // has one call at a time: rueidis waits for the reply whatever happens
	p.delay(10 * time.Millisecond)
	l := p.lock()
	locked := kit.Async(func() error { return l.Lock(ctx) })
	time.Sleep(after)
	meanwhile(p)
	_ = kit.Together(len(p.s), func(i int) error {
		ctx, cancel := context.WithTimeout(background, bound)
		defer cancel()
		return p.s[i].Close(ctx)
	})
	return l, locked
}

// endedByClose checks what Lock has returned, and that a hold that it got is lost.
func endedByClose(t *testing.T, l relock.Locker, locked <-chan error) (granted bool) {
	t.Helper()
	if err := <-locked; err != nil {
		require.ErrorIs(t, err, relock.ErrClosed)
		return false
	}
	require.True(t, kit.IsClosed(l.Done()))
	require.ErrorIs(t, l.Err(), relock.ErrLost)
	require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
	return true
}

// The lock of a hold whose grant came during Close stayed taken for its lease.
func TestHoldGrantedDuringCloseIsLostAndReleased(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		granted := 0
		for after := time.Millisecond; after < 80*time.Millisecond; after += 7 * time.Millisecond {
			for _, ctx := range []context.Context{background, t.Context()} { // rueidis waits for the reply, or not
				l, locked := closeDuringLock(w, ctx, after, time.Second, func(*process) {})
				if endedByClose(t, l, locked) {
					granted++
				}
				require.True(t, w.free(), "closed after %v", after)
			}
		}
		require.NotZero(t, granted)
	})
}

// So did its Done stay open for good if Close had not waited for the reply.
func TestHoldGrantedAfterAnAbandonedCloseIsLost(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var heal func()
		l, locked := closeDuringLock(w, background, 5*time.Millisecond, 0, func(p *process) { heal = p.partition() })
		one := w.typ.redis == 1 && len(w.typ.names) == 1 // others need more than this request
		require.True(t, !one || len(locked) == 0)
		heal()
		require.True(t, endedByClose(t, l, locked) || !one)
	})
}
