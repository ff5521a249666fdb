package relockcertmagic_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	relockcertmagic "github.com/relock-go/relock/adapters/certmagic"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest"
	"github.com/stretchr/testify/require"
)

const lease = 10 * time.Second

// lockers returns one of each of two processes, in a bubble.
func lockers(t *testing.T, f func(t *testing.T, r *relocktest.Redis, one *relock.Session, a, b *relockcertmagic.Locker)) {
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		one, two := r.Session(relock.WithLease(lease)), r.Session(relock.WithLease(lease))
		f(t, r, one, relockcertmagic.NewLocker(one), relockcertmagic.NewLocker(two))
	})
}

func TestLockersExcludeEachOther(t *testing.T) {
	lockers(t, func(t *testing.T, _ *relocktest.Redis, one *relock.Session, a, b *relockcertmagic.Locker) {
		ctx := one.NewContext(t.Context()) // also goroutines with one owner
		require.NoError(t, a.Lock(ctx, "x"))
		for _, l := range []*relockcertmagic.Locker{a, b} {
			ok, err := l.TryLock(ctx, "x")
			require.NoError(t, err)
			require.False(t, ok)
			short, cancel := context.WithTimeout(ctx, time.Minute)
			err = l.Lock(short, "x")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, relock.ErrTaken)
		}
		ok, err := b.TryLock(ctx, "y")
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, b.Unlock(ctx, "y"))

		waited := make(chan error)
		go func() { waited <- b.Lock(ctx, "x") }()
		time.Sleep(10 * lease) // a lock is renewed for as long as it takes
		require.NoError(t, a.RenewLockLease(ctx, "x", time.Minute))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		require.NoError(t, a.Unlock(ended, "x"))
		require.NoError(t, <-waited)
		require.NoError(t, b.Unlock(ctx, "x"))

		require.ErrorIs(t, a.Unlock(ctx, "x"), relock.ErrNotHeld)
		require.ErrorIs(t, a.RenewLockLease(ctx, "x", time.Minute), relock.ErrNotHeld)
		require.ErrorIs(t, a.Lock(ctx, "x{"), relock.ErrName)
	})
}

func TestLossIsToldByItsDeadlineAndTheLockTakenAgain(t *testing.T) {
	lockers(t, func(t *testing.T, r *relocktest.Redis, one *relock.Session, a, b *relockcertmagic.Locker) {
		ctx, renew := t.Context(), func() error { return a.RenewLockLease(t.Context(), "x", time.Minute) }
		require.NoError(t, a.Lock(ctx, "x"))
		heal := r.Partition(one)
		start := time.Now()
		for renew() == nil {
			time.Sleep(time.Millisecond)
		}
		require.Less(t, time.Since(start), lease)
		heal()
		time.Sleep(time.Second)

		require.NoError(t, b.Lock(ctx, "x"))
		require.ErrorIs(t, renew(), relock.ErrExpired, "somebody else has it")
		require.NoError(t, b.Unlock(ctx, "x"))
		require.NoError(t, renew())
		ok, err := b.TryLock(ctx, "x")
		require.NoError(t, err)
		require.False(t, ok)

		r.Lose("x")
		time.Sleep(time.Second)
		require.ErrorIs(t, renew(), relock.ErrLost)
		require.NoError(t, renew())
		require.NoError(t, a.Unlock(ctx, "x"))
		require.NoError(t, b.Lock(ctx, "x"))
		require.NoError(t, b.Unlock(ctx, "x"))
		require.NoError(t, a.Lock(ctx, "x"))
		require.NoError(t, renew())
		r.Lose("x")
		require.ErrorIs(t, a.Unlock(ctx, "x"), relock.ErrLost)
	})
}

// Unlock knows a name only. After a loss the next one of the process gets in when the one who has lost the lock has
// unlocked, so that this Unlock does not end the hold of the next one.
func TestUnlockAfterALossDoesNotReleaseTheHoldOfAnother(t *testing.T) {
	for _, again := range []bool{false, true} {
		lockers(t, func(t *testing.T, r *relocktest.Redis, _ *relock.Session, a, b *relockcertmagic.Locker) {
			ctx := t.Context()
			require.NoError(t, a.Lock(ctx, "x"))
			waited := make(chan error)
			go func() { waited <- a.Lock(ctx, "x") }()
			synctest.Wait()
			r.Lose("x")
			time.Sleep(2 * lease)
			want := relock.ErrLost
			require.ErrorIs(t, a.RenewLockLease(ctx, "x", time.Minute), want)
			if again {
				require.NoError(t, a.RenewLockLease(ctx, "x", time.Minute))
				want = nil
			}
			select {
			case <-waited:
				t.Fatal("two of a process hold the lock")
			default:
			}
			require.ErrorIs(t, a.Unlock(ctx, "x"), want)
			require.NoError(t, <-waited)
			ok, err := b.TryLock(ctx, "x")
			require.NoError(t, err)
			require.False(t, ok)
			require.NoError(t, a.RenewLockLease(ctx, "x", time.Minute))
			require.NoError(t, a.Unlock(ctx, "x"))
		})
	}
}

// Whether a lock is held is known without asking Redis.
func TestRenewalSendsNothing(t *testing.T) {
	server := redistest.Start(t)
	l := relockcertmagic.NewLocker(kit.NewSession(t, server, relock.WithLease(time.Minute)))
	require.NoError(t, l.Lock(t.Context(), "x"))
	require.NoError(t, server.Freeze())
	require.NoError(t, l.RenewLockLease(t.Context(), "x", time.Hour))
	require.NoError(t, server.Thaw())
	require.NoError(t, l.Unlock(t.Context(), "x"))
}
