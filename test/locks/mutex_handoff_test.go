package locks_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
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
	kit.Lock(t, kit.Background, first)
	turns = append(turns, turn{-1, first.FencingToken()})
	var mu sync.Mutex // the lock orders the turns; this is for the memory model
	var wg sync.WaitGroup
	errs := make([]error, len(waiters))
	for i, m := range waiters {
		wg.Go(func() {
			if errs[i] = m.Lock(kit.Background); errs[i] != nil {
				return
			}
			mu.Lock()
			turns = append(turns, turn{i, m.FencingToken()})
			mu.Unlock()
			errs[i] = m.Unlock(kit.Background)
		})
		kit.Queued(t, s, first.Name(), i+1)
	}
	kit.Unlock(t, kit.Background, first)
	kit.Receive(t, kit.Async(func() bool { wg.Wait(); return true }), "every waiter to have its turn")
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

func TestGoroutinesTakeTurnsInFIFOOrder(t *testing.T) {
	for what, tenure := range map[string]time.Duration{"passing": time.Hour, "default": 10 * time.Millisecond, "asking": 0} {
		t.Run(what, func(t *testing.T) {
			kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
				s := kit.NewSession(t, at, relock.WithTenure(tenure))
				takeTurns(t, s, values(s, 40))
				one := s.Mutex("lock")
				takeTurns(t, s, slices.Repeat([]*relock.Mutex{one}, 20)) // all on one value
			})
		})
	}
}

// One acquisition serves up to 1024 holds, the token block.
func TestWithinItsTenureAProcessSendsOneAcquire(t *testing.T) {
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
		s := kit.NewSession(t, server, relock.WithTenure(c.tenure))
		kit.WarmUp(t, s)
		kit.Lock(t, kit.Background, s.Mutex("lock"))
		_, err := s.ForceUnlock(kit.Background, "lock")
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
	s := kit.NewSession(t, server, relock.WithTenure(time.Hour))
	kit.WarmUp(t, s)
	fixed := relock.WithFixedLease(time.Minute)
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
func TestAHoldThatIsHandedOnHasEnded(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at, relock.WithTenure(time.Hour))
		a, b, owner := s.Mutex("lock"), s.Mutex("lock"), s.NewContext(kit.Background)
		kit.Lock(t, owner, a)
		done, token := a.Done(), a.FencingToken()
		got := kit.Async(func() error { return b.Lock(kit.Background) })
		kit.Queued(t, s, "lock", 1)
		before := kit.HoldersOf(t, s, "lock")
		kit.Unlock(t, owner, a)
		require.NoError(t, kit.Receive(t, got, "the next to get in"))
		require.Equal(t, before, kit.HoldersOf(t, s, "lock"), "Redis sees no change")
		require.True(t, kit.IsClosed(done))
		require.ErrorIs(t, a.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, a.Unlock(owner), relock.ErrNotHeld)
		require.ErrorIs(t, a.Unlock(kit.Background), relock.ErrNotHeld)
		require.False(t, kit.TryLock(t, owner, a))
		require.NoError(t, b.Err())
		require.False(t, kit.IsClosed(b.Done()))
		require.Greater(t, b.FencingToken(), token)
		forceUnlock(t, s, b)
		require.ErrorIs(t, a.Err(), relock.ErrNotHeld, "the loss is not the first one's")
		require.ErrorIs(t, b.Unlock(kit.Background), relock.ErrLost)
	})
}
