package virtual_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// otherSide returns a lock of the process that the world's excludes: the write side for a reader.
func (p *process) otherSide() relock.Locker {
	if !p.w.exclusive() {
		return p.opposite()
	}
	return p.lock()
}

// After Unlock nobody gets the lock, in this process neither, until the minimum is over. Who waits gets it then.
func TestMinHoldKeepsTheLockAfterUnlock(t *testing.T) {
	for _, least := range []time.Duration{5 * time.Second, 2 * lease} { // also beyond the lease
		t.Run(least.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				p, other := w.process(), w.process()
				l := p.held(relock.WithMinHold(least))
				start := time.Now()
				waiter := other.otherSide()
				waits, first := make(chan error, 1), time.Time{}
				go func() { // ends with the wait
					err := waiter.Lock(background)
					first = time.Now()
					waits <- err
				}()
				time.Sleep(time.Second)
				require.Zero(t, took(func() { require.NoError(t, l.Unlock(background)) }))
				require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
				for time.Since(start) < least-10*time.Millisecond {
					for _, by := range []*process{p, other} {
						ok, err := by.otherSide().TryLock(background)
						require.NoError(t, err)
						require.False(t, ok, "after %v", time.Since(start))
					}
					time.Sleep(least / 20)
				}
				require.NoError(t, <-waits)
				require.GreaterOrEqual(t, first.Sub(start), least)
				require.LessOrEqual(t, first.Sub(start), least+50*time.Millisecond+w.slow())
				require.NoError(t, waiter.Unlock(background))
				time.Sleep(time.Second)
				require.True(t, w.free())
			})
		})
	}
}

func TestMinHoldKeepsTheLockFromTheSameProcess(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held(relock.WithMinHold(time.Second))
		start := time.Now()
		next := begin(background, p.otherSide())
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-next)
		require.GreaterOrEqual(t, time.Since(start), time.Second)
		require.LessOrEqual(t, time.Since(start), time.Second+50*time.Millisecond+w.slow())
	})
}

func TestMinHoldThatIsOverKeepsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held(relock.WithMinHold(time.Second))
		time.Sleep(2 * lease)
		require.NoError(t, l.Unlock(background))
		time.Sleep(10 * time.Millisecond) // the last deployment of a Redlock
		require.True(t, w.free())
	})
}

// What a call did not get, or was not told of, is free at once.
func TestMinHoldIsOfHoldsOnly(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		s := w.process().s[0]
		b := w.process().s[0].Mutex("b")
		require.NoError(t, b.Lock(background))
		least := relock.WithMinHold(time.Hour)
		ok, err := relock.NewGroup(s.Mutex("a", least), s.Mutex("b", least)).TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		time.Sleep(10 * time.Millisecond)
		require.True(t, w.free())

		l := s.Mutex("a", least)
		require.NoError(t, l.Lock(background))
		require.NoError(t, s.Close(background))
		require.True(t, w.free())
		require.NoError(t, b.Unlock(background))
	})
}

// A release that reaches Redis late keeps the lock as much longer at most, and never for less.
func TestMinHoldIsKeptByALateRelease(t *testing.T) {
	const least, outage = 20 * time.Second, 8 * time.Second
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.held(relock.WithMinHold(least))
		start := time.Now()
		heal := p.partition()
		time.AfterFunc(outage, heal)
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(background))
		next := other.otherSide()
		require.NoError(t, next.Lock(background))
		require.GreaterOrEqual(t, time.Since(start), least)
		require.LessOrEqual(t, time.Since(start), least+outage+w.slow())
		require.NoError(t, next.Unlock(background))
	})
}

// Hosts whose clocks differ by up to 5 s run a job of 0.2 s once a minute: never twice, and never not, while hosts are
// down and up again. RELOCK_PERIODS sets for how many minutes; 10,000 take some five minutes without the race detector.
func TestJobRunsOncePerPeriodInSpiteOfClocks(t *testing.T) {
	t.Parallel()
	periods, err := strconv.Atoi(cmp.Or(os.Getenv("RELOCK_PERIODS"), "50"))
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		start := time.Now()
		runs := make([]int, periods+1)
		var mu sync.Mutex
		var hosts sync.WaitGroup
		for host := range 20 {
			job := redis.Session().Mutex("nightly", relock.WithMinHold(30*time.Second))
			skew := rand.N(10*time.Second) - 5*time.Second
			random := rand.New(rand.NewPCG(uint64(host), 1))
			hosts.Go(func() {
				for period := range periods {
					tick := start.Add(time.Duration(period+1) * time.Minute)
					time.Sleep(time.Until(tick.Add(skew)))
					if host > 0 && random.IntN(4) == 0 {
						continue // down
					}
					_, err := relock.TryDo(background, job, func(context.Context) error {
						mu.Lock()
						runs[period]++
						mu.Unlock()
						time.Sleep(200 * time.Millisecond)
						return nil
					})
					require.NoError(t, err)
				}
			})
		}
		hosts.Wait()
		for period, n := range runs[:periods] {
			require.Equal(t, 1, n, "period %d", period)
		}
	})
}

// A hold with a minimum is not passed on to the next goroutine of its process: that waits for the
// minimum as others do.
func TestMinHoldIsNotPassedOn(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		p := w.process()
		l, next := p.held(relock.WithMinHold(5*time.Second)), p.lock()
		start := time.Now()
		got := begin(background, next)
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-got)
		require.GreaterOrEqual(t, time.Since(start), 5*time.Second-2*time.Millisecond)
		require.NoError(t, next.Unlock(background))
	})
}
