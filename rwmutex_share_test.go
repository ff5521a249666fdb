package relock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// warmUpRW has the server know the scripts of RWMutex.
func warmUpRW(t testing.TB, s *relock.Session) {
	t.Helper()
	rw := s.RWMutex("warm-up")
	for _, l := range []relock.Locker{rw, rw.RLocker()} {
		lock(t, background, l)
		unlock(t, background, l)
	}
	holdersOf(t, s, "warm-up")
}

func TestRWMutexReadersOfAProcessShareOneHold(t *testing.T) {
	t.Parallel()
	const readers = 100
	server := redistest.Start(t)
	client := newClient(t, server)
	s := newSession(t, server, relock.WithTenure(time.Hour))
	warmUpRW(t, s)
	one := s.RWMutex("lock")
	for _, shared := range []bool{false, true} {
		locks := make([]relock.Locker, readers)
		for i := range locks {
			locks[i] = s.RWMutex("lock").RLocker()
			if shared {
				locks[i] = one.RLocker()
			}
		}
		cost := trafficOf(server, func() {
			require.NoError(t, together(readers, func(i int) error { return locks[i].Lock(background) }))
			require.Len(t, holdersOf(t, s, "lock"), 1)
			for _, l := range locks[1:] {
				unlock(t, background, l)
			}
			require.True(t, exists(t, client, "lock"))
			unlock(t, background, locks[0])
		})
		require.EqualValues(t, 1, cost.acquired)
		require.LessOrEqual(t, cost.scripts, int64(3), "one to acquire, one to release, one to inspect")
		mustBeQuiet(t, client, "lock", s)
	}
}

// Without a tenure each reader is told by Redis that it may enter, but they still have
// one hold in Redis.
func TestRWMutexWithoutATenureAsksEachTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server, relock.WithTenure(0))
	warmUpRW(t, s)
	first := s.RWMutex("lock")
	lock(t, background, first.RLocker())
	cost := trafficOf(server, func() {
		for range 10 {
			rw := s.RWMutex("lock")
			lock(t, background, rw.RLocker())
			unlock(t, background, rw.RLocker())
		}
	})
	require.GreaterOrEqual(t, cost.scripts, int64(10))
	require.Zero(t, cost.acquired)
	unlock(t, background, first.RLocker())
}

// What a value says of its hold must be true for each goroutine that reads through it:
// Done closes when the last of them has unlocked.
func TestRWMutexSharedByGoroutines(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		rw := s.RWMutex("lock")
		r := rw.RLocker()
		require.True(t, isClosed(r.Done()))
		require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
		lock(t, background, r)
		lock(t, background, r)
		done := r.Done()
		unlock(t, background, r)
		require.False(t, isClosed(done))
		require.NoError(t, r.Err())
		require.ErrorIs(t, rw.Err(), relock.ErrNotHeld, "the other side")
		require.True(t, isClosed(rw.Done()))
		lock(t, background, r)
		unlock(t, background, r)
		require.False(t, isClosed(done))
		unlock(t, background, r)
		require.True(t, isClosed(done))
		require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, r.Unlock(background), relock.ErrNotHeld)
		mustBeQuiet(t, newClient(t, at), "lock", s)
	})
}

// Regression: the end of one function's reading cancelled the others.
func TestRWMutexDoByManyReaders(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		rw := s.RWMutex("lock")
		inside := make(chan struct{})
		leaves := make(chan struct{})
		var results []<-chan error
		read := func(ctx context.Context, until <-chan struct{}) {
			results = append(results, async(func() error {
				return relock.Do(ctx, rw.RLocker(), func(ctx context.Context) error {
					inside <- struct{}{}
					<-until
					return context.Cause(ctx)
				})
			}))
			receive(t, inside, "the function to be called")
		}
		soonOver := make(chan struct{})
		read(background, leaves)
		read(s.NewContext(background), leaves)
		read(background, soonOver)
		read(s.NewContext(background), soonOver)
		close(soonOver)
		for i := 2; i < 4; i++ {
			require.NoError(t, receive(t, results[i], "the function to return"))
		}
		close(leaves)
		for i := range 2 {
			require.NoError(t, receive(t, results[i], "the function to return"))
		}
		mustBeQuiet(t, newClient(t, at), "lock", s)
	})
}

// And a loss cancels each of them.
func TestRWMutexDoTellsEveryReaderOfALoss(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		rw := s.RWMutex("lock")
		inside := make(chan struct{})
		var results []<-chan error
		for i := range 6 {
			ctx := background
			if i%2 == 0 {
				ctx = s.NewContext(ctx)
			}
			results = append(results, async(func() error {
				return relock.Do(ctx, rw.RLocker(), func(ctx context.Context) error {
					inside <- struct{}{}
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), relock.ErrLost) {
						return context.Cause(ctx)
					}
					return nil
				})
			}))
			receive(t, inside, "the function to be called")
		}
		_, err := s.ForceUnlock(background, "lock")
		require.NoError(t, err)
		for _, r := range results {
			require.ErrorIs(t, receive(t, r, "the function to return"), relock.ErrLost)
		}
		mustBeQuiet(t, newClient(t, at), "lock", s)
	})
}

// Unlocking without an owner, through a value that has both kinds of readers, ends what
// was taken without one.
func TestRWMutexSharedByOwnersAndOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		rw, owner := s.RWMutex("lock"), s.NewContext(background)
		for _, order := range [][]context.Context{{background, owner}, {owner, background}} {
			for _, ctx := range order {
				lock(t, ctx, rw.RLocker())
			}
			unlock(t, background, rw.RLocker())
			require.Len(t, holdersOf(t, s, "lock"), 1)
			unlock(t, owner, rw.RLocker())
			require.ErrorIs(t, rw.RUnlock(owner), relock.ErrNotHeld)
			require.ErrorIs(t, rw.RUnlock(background), relock.ErrNotHeld)
		}
		mustBeQuiet(t, newClient(t, at), "lock", s)
	})
}
