package locks_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// pttl returns the time to live of a key.
func pttl(t testing.TB, client rueidis.Client, key string) time.Duration {
	t.Helper()
	ms, err := client.Do(kit.Background, client.B().Pttl().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

func TestAFixedLeaseEndsOnTime(t *testing.T) {
	t.Parallel()
	const lease = 400 * time.Millisecond
	server := redistest.Start(t)
	s, client := kit.NewSession(t, server, relock.WithLease(lease)), kit.NewClient(t, server)
	m := s.Mutex("lock", relock.WithFixedLease(lease))
	start := time.Now()
	kit.Lock(t, kit.Background, m)
	until, _ := m.Deadline()
	done := m.Done()
	for last := lease; !kit.IsClosed(done); time.Sleep(lease / 20) {
		left := pttl(t, client, "lock")
		require.LessOrEqual(t, left, last, "nobody renews it")
		last = left
		at, ok := m.Deadline()
		require.True(t, !ok || at.Sub(until).Abs() < lease/4, "the deadline stays")
	}
	require.Greater(t, time.Since(start), lease/2)
	require.ErrorIs(t, m.Err(), relock.ErrLost)
	kit.GoneQuickly(t, client, "lock")
	require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
}

// The next one does not wait for a poll, which comes every few seconds. The best of
// a few tries counts, since the machine may be busy.
func TestAWaiterGetsInRightAfterAFixedLease(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	for where, waiter := range map[string]*relock.Mutex{"local": s.Mutex("lock"), "remote": other.Mutex("lock")} {
		best := time.Hour
		for range 3 {
			m := s.Mutex("lock", relock.WithFixedLease(lease))
			watch := kit.StartWatch()
			kit.Lock(t, kit.Background, m)
			kit.Lock(t, kit.Background, waiter)
			require.Greater(t, time.Since(watch.Start), lease/2, where)
			best = min(best, watch.Took())
			require.ErrorIs(t, m.Err(), relock.ErrLost)
			require.Greater(t, waiter.FencingToken(), m.FencingToken())
			kit.Unlock(t, kit.Background, waiter)
		}
		require.Less(t, best, lease+500*time.Millisecond, where)
	}
}

func TestLockingAgainDoesNotProlongAFixedLease(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	server := redistest.Start(t)
	s, client := kit.NewSession(t, server), kit.NewClient(t, server)
	m, owner := s.Mutex("lock", relock.WithFixedLease(lease)), s.NewContext(kit.Background)
	kit.Lock(t, owner, m)
	until, _ := m.Deadline()
	last := pttl(t, client, "lock")
	for _, same := range []*relock.Mutex{m, s.Mutex("lock", relock.WithFixedLease(time.Hour)), s.Mutex("lock")} {
		time.Sleep(lease / 20)
		kit.Lock(t, owner, same)
		at, ok := same.Deadline()
		require.True(t, ok)
		require.Less(t, at.Sub(until).Abs(), lease/4)
		left := pttl(t, client, "lock")
		require.LessOrEqual(t, left, last)
		last = left
	}
	lostIn(t, kit.Soon, m)
	for range 4 {
		require.ErrorIs(t, m.Unlock(owner), relock.ErrLost, "each of the locks is to be unlocked")
	}
	require.ErrorIs(t, m.Unlock(owner), relock.ErrNotHeld)
}

func TestUnlockEndsAFixedLeaseEarly(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		m := s.Mutex("lock", relock.WithFixedLease(time.Hour))
		kit.Lock(t, kit.Background, m)
		require.InDelta(t, time.Hour, pttl(t, client, "lock"), float64(time.Minute))
		kit.Unlock(t, kit.Background, m)
		require.False(t, kit.Exists(t, client, "lock"))
	})
}

// A holder that is stuck is renewed up to its bound, and is then told as any loss is.
func TestMaxHoldEndsAStuckHold(t *testing.T) {
	t.Parallel()
	const lease, most = 300 * time.Millisecond, 500 * time.Millisecond
	server := redistest.Start(t)
	s, client := kit.NewSession(t, server, relock.WithLease(lease)), kit.NewClient(t, server)
	m, unbounded := s.Mutex("lock", relock.WithMaxHold(most)), s.Mutex("other")
	kit.Lock(t, kit.Background, unbounded)
	start := time.Now()
	kit.Lock(t, kit.Background, m)
	lostIn(t, kit.Soon, m)
	require.Greater(t, time.Since(start), lease, "it was renewed at first")
	require.NoError(t, unbounded.Err())
	kit.GoneQuickly(t, client, "lock")
	require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
	kit.Lock(t, kit.Background, m)
	kit.Unlock(t, kit.Background, m)
}

// Each owner that a Redis hold is passed to has the bound of its own lock value, and
// all the time of it.
func TestMaxHoldIsPerOwner(t *testing.T) {
	t.Parallel()
	const lease, most = 500 * time.Millisecond, 900 * time.Millisecond
	s := kit.NewSession(t, redistest.Start(t), relock.WithLease(lease), relock.WithTenure(time.Hour))
	bound := relock.WithMaxHold(most)
	for _, c := range []struct {
		what    string
		values  []*relock.Mutex // the hold goes from one to the next
		bounded bool            // is the last one
	}{
		{"bounded to bounded", []*relock.Mutex{s.Mutex("a", bound), s.Mutex("a", bound), s.Mutex("a", bound), s.Mutex("a", bound)}, true},
		{"bounded to unbounded", []*relock.Mutex{s.Mutex("b", bound), s.Mutex("b")}, false},
		{"unbounded to bounded", []*relock.Mutex{s.Mutex("c"), s.Mutex("c", bound)}, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			kit.Lock(t, kit.Background, c.values[0])
			for i, m := range c.values[:len(c.values)-1] {
				next := c.values[i+1]
				got := kit.Async(func() error { return next.Lock(kit.Background) })
				kit.Queued(t, s, m.Name(), 1)
				time.Sleep(most / 2)
				kit.Unlock(t, kit.Background, m)
				require.NoError(t, kit.Receive(t, got, "the next one to get in"))
			}
			last := c.values[len(c.values)-1]
			if c.bounded {
				require.Greater(t, time.Since(began), most/2*time.Duration(len(c.values)-1)-1)
				lostIn(t, kit.Soon, last)
				return
			}
			time.Sleep(most + 2*lease) // longer than anything bounded would last
			require.NoError(t, last.Err())
			kit.Unlock(t, kit.Background, last)
		})
	}
}

// Regression: goroutines of one owner that are let in together all saw to the bound of
// their common hold, without a lock.
func TestMaxHoldOfAnOwnersWaiters(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at, relock.WithTenure(time.Hour))
		for i := range 20 {
			holder, owner := s.Mutex("lock", relock.WithMaxHold(time.Hour)), s.NewContext(kit.Background)
			kit.Lock(t, kit.Background, holder)
			got := make(chan error, 4)
			for j := range 4 {
				m := s.Mutex("lock", relock.WithMaxHold(time.Duration(i+j+1)*time.Hour))
				go func() { got <- m.Lock(owner) }()
			}
			kit.Queued(t, s, "lock", 4)
			kit.Unlock(t, kit.Background, holder)
			for range 4 {
				require.NoError(t, kit.Receive(t, got, "the owner's goroutines"))
			}
			for range 4 {
				kit.Unlock(t, owner, s.Mutex("lock"))
			}
		}
	})
}

func TestADayLongLease(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		const day = 24 * time.Hour
		s, client := kit.NewSession(t, at, relock.WithLease(day)), kit.NewClient(t, at)
		for _, m := range []*relock.Mutex{s.Mutex("lock"), s.Mutex("lock", relock.WithFixedLease(day))} {
			kit.Lock(t, kit.Background, m)
			require.InDelta(t, day, pttl(t, client, "lock"), float64(time.Minute))
			until, ok := m.Deadline()
			require.True(t, ok)
			require.InDelta(t, day, time.Until(until), float64(10*time.Minute))
			kit.Unlock(t, kit.Background, m)
		}
	})
}

// Short leases outlive a busy process: hundreds of holds in a few batches, beside
// goroutines that lock and unlock all the time. A machine on which a bare round trip
// takes a good part of the lease proves nothing; there the test is made again.
func TestShortLeasesAreKeptUnderLoad(t *testing.T) {
	const lease, rounds = 200 * time.Millisecond, 4
	server := redistest.Start(t)
	span := kit.Stress(t, time.Second)
	for round := 1; ; round++ {
		lost, slowest := keepUnderLoad(t, server, lease, span)
		if lost == 0 {
			return
		}
		t.Logf("%d losses, slowest bare round trip %v", lost, slowest)
		if slowest < lease/4 {
			t.Fatal("lost a lease without an excuse")
		}
		if round == rounds {
			t.Log("the machine is too slow to tell")
			return
		}
	}
}

// keepUnderLoad holds locks with a short lease for a while, and returns how many were
// lost, and how long the slowest of bare round trips took in the same process.
func keepUnderLoad(t *testing.T, server *redistest.Server, lease, span time.Duration) (lost int64, slowest time.Duration) {
	t.Helper()
	var losses atomic.Int64
	s := kit.NewSession(t, server, relock.WithLease(lease), relock.WithObserver(lossCounter{lost: &losses}))
	client, bare := kit.NewClient(t, server), kit.NewClient(t, server)
	stop := make(chan struct{})
	watched := kit.Async(func() (most time.Duration) {
		for !kit.IsClosed(stop) {
			start := time.Now()
			time.Sleep(time.Millisecond)
			_ = bare.Do(kit.Background, bare.B().Ping().Build()).Error()
			most = max(most, time.Since(start))
		}
		return most
	})
	var held []*relock.Mutex
	for i := range 300 {
		m := s.Mutex(fmt.Sprint("held-", i))
		kit.Lock(t, kit.Background, m)
		held = append(held, m)
	}
	end := time.Now().Add(span)
	require.NoError(t, kit.Together(4, func(i int) error {
		m := s.Mutex(fmt.Sprint("busy-", i%2))
		for time.Now().Before(end) {
			err := m.Lock(kit.Background)
			if err == nil {
				err = errors.Join(kit.Bump(kit.Background, client, m.Name()+"-count"), ignore(m.Unlock(kit.Background), relock.ErrLost))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	for _, m := range held {
		require.NoError(t, ignore(m.Unlock(kit.Background), relock.ErrLost))
	}
	close(stop)
	return losses.Load(), kit.Receive(t, watched, "the last round trip")
}

type lossCounter struct {
	relock.NopObserver
	lost *atomic.Int64
}

func (o lossCounter) Lost(relock.LostEvent) { o.lost.Add(1) }
