package relock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// More calls than the client's queue has places for, on a Redis that hangs: each ends
// with its own context, Unlock with the lease, and afterwards nothing of them is left.
// A call that found the queue full waited for Redis, whatever its context said.
func TestCrowdOfCallsEndsInTimeWhileRedisHangs(t *testing.T) {
	t.Parallel()
	const crowd, patience, lease = 3000, 500 * time.Millisecond, 2 * time.Second
	s := redistest.Start(t)
	session := newSession(t, s)
	client := newClient(t, s)
	// More slack than elsewhere: thousands of goroutines are to run, and their neighbours.
	const crowded = 3 * slack
	short := newSession(t, s, relock.WithWatchdog(lease)).Mutex("short")
	fixed := session.Mutex("fixed", relock.WithLease(lease))
	goesOn(t, session.Mutex("0"), short, fixed)
	lock(t, background, short)
	lock(t, background, fixed)
	require.NoError(t, s.Freeze())
	frozen := startWatch()
	done := short.Done()
	told := async(func() time.Duration {
		<-done
		return frozen.took()
	})
	unlocked := async(func() error { return fixed.Unlock(background) })
	err := together(crowd, func(i int) error {
		ctx, cancel := context.WithTimeout(background, patience)
		defer cancel()
		watch := startWatch()
		err := session.Mutex(fmt.Sprint(i)).Lock(ctx)
		if took := watch.took(); took > patience+crowded {
			return fmt.Errorf("call %d took %v", i, took)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("call %d: %w", i, err)
		}
		return nil
	})
	require.NoError(t, err)
	require.Less(t, receive(t, told, "the loss"), lease+crowded)
	unlockIsLost(t, short)
	require.ErrorIs(t, receive(t, unlocked, "Unlock"), relock.ErrLost)
	require.Less(t, frozen.took(), lease+crowded)
	require.NoError(t, s.Thaw())
	redistest.Eventually(t, quickly, "everything to be released", func() bool { return len(keys(t, client)) == 0 })
	goesOn(t, session.Mutex("0"), session.Mutex("1"), short, fixed)
}
