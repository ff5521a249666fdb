package setnx

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// Section 1: a process dies when Redis has executed its first command. Another tries two minutes
// later.
func TestCrashBetweenSetnxAndExpire(t *testing.T) {
	twoCommands := func(ctx context.Context, client rueidis.Client, key, _ string) (bool, error) {
		return lockThenExpire(ctx, client, key)
	}
	compare(t, byHand(twoCommands, unlock), withRelock, func(t *testing.T, w *world, lock try) bool {
		w.Delay(w.a.session, time.Second) // to Redis, and back
		ctx, cancel := context.WithTimeout(background, 1500*time.Millisecond)
		defer cancel()
		_, err := lock(ctx, w.a)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		w.Partition(w.a.session)
		require.False(t, free(t, lock, w.b), "Redis has executed nothing")
		time.Sleep(2 * time.Minute)
		return !free(t, lock, w.b)
	})
}

// Section 2: a holder is cut off for longer than its lease, and then unlocks. Meanwhile another has
// the lock.
func TestDelDeletesTheNextHoldersLock(t *testing.T) {
	del := func(ctx context.Context, client rueidis.Client, key, _ string) error {
		return unlockAnybodys(ctx, client, key)
	}
	compare(t, byHand(tryLock, del), withRelock, func(t *testing.T, w *world, lock try) bool {
		unlockLate := must(t, lock, w.a)
		heal := w.Partition(w.a.session)
		time.Sleep(31 * time.Second)
		must(t, lock, w.b)
		heal()
		if err := unlockLate(background); err != nil {
			require.ErrorIs(t, err, relock.ErrLost)
		}
		return free(t, lock, w.c) // though b has it
	})
}

// Section 3: the lock expires between the two commands of an unlock, and another takes it.
func TestLockExpiresBetweenGetAndDel(t *testing.T) {
	compare(t, byHand(tryLock, unlockInTwoSteps), withRelock, func(t *testing.T, w *world, lock try) bool {
		unlock := must(t, lock, w.a)
		time.Sleep(27500 * time.Millisecond) // between two PINGs of the client
		w.Delay(w.a.session, 2*time.Second)  // to Redis, and back
		var unlocking sync.WaitGroup
		unlocking.Go(func() { require.NoError(t, unlock(background)) }) // GET at 29.5 s, DEL at 33.5 s
		time.Sleep(5 * time.Second)
		must(t, lock, w.b) // at 32.5 s
		unlocking.Wait()
		return free(t, lock, w.c) // though b has it
	})
}

// Section 4: the work takes longer than the lease.
func TestWorkOutlastsTheLease(t *testing.T) {
	type do func(p process, work func(context.Context) error) (bool, error)
	compare[do](t, func(p process, work func(context.Context) error) (bool, error) {
		return tryDo(background, p.client, key, work)
	}, func(p process, work func(context.Context) error) (bool, error) {
		ctx, session := background, p.session
		ran, err := relock.TryDo(ctx, session.Mutex("order:1"), work)
		return ran, err
	}, func(t *testing.T, w *world, do do) bool {
		var working sync.WaitGroup
		working.Go(func() {
			ran, err := do(w.a, func(ctx context.Context) error {
				time.Sleep(45 * time.Second)
				return ctx.Err()
			})
			require.NoError(t, err, "the work is told")
			require.True(t, ran)
		})
		time.Sleep(31 * time.Second)
		two, err := do(w.b, func(context.Context) error { return nil })
		require.NoError(t, err)
		working.Wait()
		return two
	})
}

// Section 5: a holder is cut off, and another takes the lock. The first goes on to renew, and is
// not told; the second dies, and its lock stays.
func TestRenewalOfAnothersLock(t *testing.T) {
	type lock func(ctx context.Context, p process) (lost <-chan struct{}, err error) // nil: taken
	compare[lock](t, func(ctx context.Context, p process) (<-chan struct{}, error) {
		ok, err := tryLock(ctx, p.client, key, rand.Text())
		if err != nil || !ok {
			return nil, err
		}
		go keepRenewing(ctx, p.client, key)
		return make(chan struct{}), nil // which nobody closes
	}, func(ctx context.Context, p process) (<-chan struct{}, error) {
		hold, err := p.session.Mutex(key).TryAcquire(ctx)
		if err != nil {
			return nil, err
		}
		lost := hold.Done()
		return lost, nil
	}, func(t *testing.T, w *world, lock lock) bool {
		ctx, end := context.WithCancel(background)
		defer end()
		lost, err := lock(ctx, w.a)
		require.NoError(t, err)
		heal := w.Partition(w.a.session)
		time.Sleep(31 * time.Second)

		alive, die := context.WithCancel(background)
		defer die()
		next, err := lock(alive, w.b)
		require.NoError(t, err)
		require.NotNil(t, next)
		told := isClosed(lost)
		heal()
		time.Sleep(5 * time.Second)
		die()
		w.Partition(w.b.session)
		time.Sleep(2 * time.Minute)

		next, err = lock(ctx, w.c)
		require.NoError(t, err)
		require.Equal(t, told, next != nil, "one half of the fault only")
		return !told
	})
}

// Section 6: a holder is paused just before it writes. Meanwhile another sells.
func TestPausedHolderWritesLate(t *testing.T) {
	type seller func(p process, held func() bool) error
	compare[seller](t, func(p process, held func() bool) error {
		_, err := tryDo(background, p.client, key, func(ctx context.Context) error { return sell(ctx, p.client, held) })
		return err
	}, func(p process, held func() bool) error {
		ctx, client := background, p.client
		return relock.Do(ctx, p.session.Mutex(key), func(ctx context.Context) error {
			stock, err := client.Do(ctx, client.B().Get().Key("stock").Build()).AsInt64()
			if err != nil || stock == 0 || !held() {
				return err
			}
			left := strconv.FormatInt(stock-1, 10)
			hold := relock.HoldOf(ctx)
			ctx = context.WithoutCancel(ctx) // it does not notice
			const set = "return redis.call('SET', KEYS[1], ARGV[1])"
			err = hold.Eval(ctx, set, []string{"stock"}, []string{left}).Error()
			return err
		})
	}, func(t *testing.T, w *world, sell seller) bool {
		client := w.Client()
		require.NoError(t, client.Do(background, client.B().Set().Key("stock").Value("10").Build()).Error())
		sold := 0
		err := sell(w.a, func() bool {
			resume := w.Partition(w.a.session)
			time.Sleep(31 * time.Second)
			require.NoError(t, sell(w.b, func() bool { return true }))
			sold++
			resume()
			return true // it was held when a looked
		})
		if err == nil {
			sold++
		} else {
			require.ErrorIs(t, err, relock.ErrLost)
		}
		left, err := client.Do(background, client.B().Get().Key("stock").Build()).AsInt64()
		require.NoError(t, err)
		return sold+int(left) != 10
	})
}

// Section 7: a process takes the lock again as soon as it has released it, for 20 seconds. Another
// one waits.
func TestPollingWaiterStarves(t *testing.T) {
	poll := func(ctx context.Context, client rueidis.Client, key, value string) (bool, error) {
		err := lockByPolling(ctx, client, key, value)
		return err == nil, err
	}
	compare(t, byHand(poll, unlock), func(ctx context.Context, p process) (func(context.Context) error, error) {
		session := p.session
		hold, err := session.Mutex("order:1").Acquire(ctx)
		return hold.Unlock, err
	}, func(t *testing.T, w *world, lock try) bool {
		ctx, stop := context.WithTimeout(background, 20*time.Second)
		defer stop()
		var busy sync.WaitGroup
		busy.Go(func() {
			for ctx.Err() == nil {
				unlock, err := lock(ctx, w.a)
				if err != nil {
					require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled), "%v", err)
					return
				}
				time.Sleep(100 * time.Millisecond)
				require.NoError(t, unlock(background))
			}
		})
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		unlock, err := lock(ctx, w.b)
		if err == nil {
			require.Less(t, time.Since(start), time.Second)
			require.NoError(t, unlock(background))
		}
		stop()
		busy.Wait()
		return err != nil
	})
}

// Section 8: Redis executes the command, and its reply is lost.
func TestLostReplyLocksTheCallerOut(t *testing.T) {
	compare(t, byHand(tryLockAgain, unlock), withRelock, func(t *testing.T, w *world, lock try) bool {
		w.DropReplies(w.a.session, 1)
		got := free(t, lock, w.a)
		require.False(t, free(t, lock, w.b))
		return !got // though nobody else has it
	})
}

// Section 8: the caller gives up while the reply is on its way.
func TestCancelledCallLeavesTheLockTaken(t *testing.T) {
	compare(t, byHand(tryLockAgain, unlock), withRelock, func(t *testing.T, w *world, lock try) bool {
		w.Delay(w.a.session, time.Second) // to Redis, and back
		ctx, cancel := context.WithTimeout(background, 1500*time.Millisecond)
		defer cancel()
		_, err := lock(ctx, w.a)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(5 * time.Second)
		return !free(t, lock, w.b)
	})
}

// Beside the eight: an unlock in the context of a request that has ended.
func TestUnlockAfterTheDeadline(t *testing.T) {
	compare(t, byHand(tryLock, unlock), withRelock, func(t *testing.T, w *world, lock try) bool {
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		unlock, err := lock(ctx, w.a)
		require.NoError(t, err)
		<-ctx.Done()
		if err := unlock(ctx); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		time.Sleep(time.Second)
		return !free(t, lock, w.b)
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
