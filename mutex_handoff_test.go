package relock_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A turn is what a waiter did when it had the lock.
type turn struct {
	waiter int
	token  int64
}

// takeTurns takes the lock, queues waiters behind that one after the other, unlocks,
// and returns their turns in the order in which they had them.
func takeTurns(t *testing.T, s *relock.Session, waiters []*relock.Mutex) (turns []turn) {
	t.Helper()
	first := s.Mutex(waiters[0].Name())
	lock(t, background, first)
	turns = append(turns, turn{-1, first.FencingToken()})
	var mu sync.Mutex // the lock orders the turns; this is for the memory model
	var wg sync.WaitGroup
	errs := make([]error, len(waiters))
	for i, m := range waiters {
		wg.Go(func() {
			if errs[i] = m.Lock(background); errs[i] != nil {
				return
			}
			mu.Lock()
			turns = append(turns, turn{i, m.FencingToken()})
			mu.Unlock()
			errs[i] = m.Unlock(background)
		})
		queued(t, s, first.Name(), i+1)
	}
	unlock(t, background, first)
	receive(t, async(func() bool { wg.Wait(); return true }), "every waiter to have its turn")
	for _, err := range errs {
		require.NoError(t, err)
	}
	for i := range turns {
		require.Equal(t, i-1, turns[i].waiter, "in order of arrival")
		if i > 0 {
			require.Greater(t, turns[i].token, turns[i-1].token)
		}
	}
	return turns
}

func values(s *relock.Session, n int, opts ...relock.LockOption) []*relock.Mutex {
	var ms []*relock.Mutex
	for range n {
		ms = append(ms, s.Mutex("lock", opts...))
	}
	return ms
}

func TestGoroutinesTakeTurnsInOrderOfArrival(t *testing.T) {
	for what, tenure := range map[string]time.Duration{"passing": time.Hour, "default": 10 * time.Millisecond, "asking": 0} {
		t.Run(what, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at addressed) {
				s := newSession(t, at, relock.WithTenure(tenure))
				takeTurns(t, s, values(s, 40))
				one := s.Mutex("lock")
				takeTurns(t, s, slices.Repeat([]*relock.Mutex{one}, 20)) // all on one value
			})
		})
	}
}

// One acquisition serves up to 1024 holds, the token block.
func TestWithinItsTenureAProcessAsksRedisOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, c := range []struct {
		what     string
		tenure   time.Duration
		waiters  int
		acquired int64
	}{
		{"within the tenure", time.Hour, 60, 1},
		{"as far as the tokens go", time.Hour, 1024 + 100, 2},
		{"no tenure", 0, 60, 61},
		{"the tenure has passed", time.Nanosecond, 60, 61},
	} {
		s := newSession(t, server, relock.WithTenure(c.tenure))
		warmUp(t, s)
		lock(t, background, s.Mutex("lock"))
		_, err := s.ForceUnlock(background, "lock")
		require.NoError(t, err)
		time.Sleep(5 * time.Millisecond) // Redis's clock passes the tokens: the next block is a whole one
		cost := trafficOf(server, func() { takeTurns(t, s, values(s, c.waiters)) })
		require.Equal(t, c.acquired, cost.acquired, c.what)
		require.Equal(t, c.acquired, cost.released, c.what)
		require.LessOrEqual(t, cost.scripts, 2*c.acquired+1, c.what)
	}
}

// A fixed lease is one owner's time: what is left of it is not for the next, and who
// wants a fixed lease wants all of it.
func TestFixedLeasesAreNotPassed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server, relock.WithTenure(time.Hour))
	warmUp(t, s)
	fixed := relock.WithLease(time.Minute)
	cost := trafficOf(server, func() { takeTurns(t, s, values(s, 20, fixed)) })
	require.EqualValues(t, 21, cost.acquired, "from fixed to fixed, and from renewed to fixed")
	mixed := values(s, 20)
	for i := 1; i < len(mixed); i += 2 {
		mixed[i] = s.Mutex("lock", fixed)
	}
	cost = trafficOf(server, func() { takeTurns(t, s, mixed) })
	require.EqualValues(t, 20, cost.acquired, "only the first of them could take over")
}

// Each of the goroutines that a Redis hold is passed to has a hold of its own.
func TestAHoldThatIsPassedOnHasEnded(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at, relock.WithTenure(time.Hour))
		a, b, owner := s.Mutex("lock"), s.Mutex("lock"), s.NewContext(background)
		lock(t, owner, a)
		done, token := a.Done(), a.FencingToken()
		got := async(func() error { return b.Lock(background) })
		queued(t, s, "lock", 1)
		before := holdersOf(t, s, "lock")
		unlock(t, owner, a)
		require.NoError(t, receive(t, got, "the next to get in"))
		require.Equal(t, before, holdersOf(t, s, "lock"), "Redis sees no change")
		require.True(t, isClosed(done))
		require.ErrorIs(t, a.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, a.Unlock(owner), relock.ErrNotHeld)
		require.ErrorIs(t, a.Unlock(background), relock.ErrNotHeld)
		require.False(t, tryLock(t, owner, a))
		require.NoError(t, b.Err())
		require.False(t, isClosed(b.Done()))
		require.Greater(t, b.FencingToken(), token)
		forceUnlock(t, s, b)
		require.ErrorIs(t, a.Err(), relock.ErrNotHeld, "the loss is not the first one's")
		require.ErrorIs(t, b.Unlock(background), relock.ErrLost)
	})
}
