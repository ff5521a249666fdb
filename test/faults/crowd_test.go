package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
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
	session := kit.NewSession(t, s)
	client := kit.NewClient(t, s)
	short := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("short")
	fixed := session.Mutex("fixed", relock.WithFixedLease(lease))
	goesOn(t, session.Mutex("0"), short, fixed)
	kit.Lock(t, kit.Background, short)
	kit.Lock(t, kit.Background, fixed)
	require.NoError(t, s.Freeze())
	done := short.Done()
	unlocked := kit.Async(func() error { return fixed.Unlock(kit.Background) })
	err := kit.Together(crowd, func(i int) error {
		ctx, cancel := context.WithTimeout(kit.Background, patience)
		defer cancel()
		err := session.Mutex(fmt.Sprint(i)).Lock(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("call %d: %w", i, err)
		}
		return nil
	})
	require.NoError(t, err)
	kit.Receive(t, done, "the loss")
	unlockIsLost(t, short)
	require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
	require.NoError(t, s.Thaw())
	redistest.Eventually(t, kit.Quickly, "everything to be released", func() bool { return len(kit.Keys(t, client)) == 0 })
	goesOn(t, session.Mutex("0"), session.Mutex("1"), short, fixed)
}
