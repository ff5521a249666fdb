package virtual_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// tries calls TryLock of a Mutex with WithKeep.
func tries(ctx context.Context, s *relock.Session, o ...relock.LockOption) <-chan error {
	return kit.Async(func() error {
		_, err := s.Mutex("a", append(o, keeps)...).TryLock(ctx)
		return err
	})
}

// The lock is just taken, and Redis well. TryLocks that wait for each other in the process may be in the
// midst of a request when their 250 ms are over.
func TestTryLocksOfATakenLockReturnNoError(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		_ = p.held()
		for _, way := range []time.Duration{500 * time.Microsecond, 5 * time.Millisecond} {
			other.delay(way)
			for after := range 6 {
				first := tries(background, other.s[0])
				time.Sleep(time.Duration(after)*way + time.Microsecond)
				second := tries(background, other.s[0])
				require.NoError(t, <-first)
				require.NoError(t, <-second)
			}
		}
		other.delay(500 * time.Microsecond)
		var all []<-chan error
		for range 1000 {
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			all = append(all, tries(background, other.s[0]))
		}
		for _, one := range all {
			require.NoError(t, <-one)
		}
	})
}

// A Lock before it in the process gives up just before the 250 ms are over.
func TestTryLockBehindALockThatGivesUp(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		_ = p.held()
		other.delay(5 * time.Millisecond)
		ctx, stop := context.WithTimeout(background, 10*time.Second)
		defer stop()
		lock := begin(ctx, other.s[0].Mutex("a"))
		time.Sleep(10*time.Second - 245*time.Millisecond)
		require.NoError(t, <-tries(background, other.s[0]))
		require.ErrorIs(t, <-lock, relock.ErrTaken)
	})
}

// The process asks Redis, or releases what it kept, for longer than 250 ms.
func TestTryLockBehindASlowRequestOfItsProcess(t *testing.T) {
	for _, way := range []time.Duration{50 * time.Millisecond, 140 * time.Millisecond, 400 * time.Millisecond} {
		for _, before := range []string{"Lock", "TryLock", "another lease"} {
			t.Run(fmt.Sprint(before, " ", way), func(t *testing.T) {
				onKept(t, func(t *testing.T, w *world) {
					p := w.process()
					o := relock.WithLease(30 * time.Second)
					if before == "another lease" {
						p.keptBy()
						o = relock.WithLease(time.Minute)
					}
					p.delay(way)
					var first <-chan error
					if before == "Lock" {
						first = lockAndUnlock(p.s[0].Mutex("a", keeps))
					} else {
						first = tries(background, p.s[0], o)
					}
					synctest.Wait()
					require.NoError(t, <-tries(background, p.s[0], o))
					require.NoError(t, <-first)
				})
			})
		}
	}
}

// Redis does not answer. The error is that, and none of a context: the caller's has not ended.
func TestTryLockWithKeepWithoutAnAnswer(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		heal := p.partition()
		require.Equal(t, 3*time.Second, took(func() {
			err := <-tries(background, p.s[0])
			require.ErrorIs(t, err, relock.ErrUnavailable)
			require.NotErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
		}))
		heal()
	})
}

// The caller's context ends in the moment in which the 250 ms are over.
func TestTryLockWithKeepWhoseContextEndsAtItsEnd(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		_ = p.held()
		for range 300 {
			ctx, stop := context.WithTimeout(background, 250*time.Millisecond)
			if err := <-tries(ctx, other.s[0]); err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			stop()
		}
	})
}
