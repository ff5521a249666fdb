package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A fixed lease is not renewed, and ends when it says; the other side gets in then. A
// reader's is its own: others of the same session read on.
func TestRWMutexFixedLeaseEndsOnTime(t *testing.T) {
	const lease = 600 * time.Millisecond
	eachPair(t, func(t *testing.T, holder, waiter side) {
		server := redistest.Start(t)
		client := kit.NewClient(t, server)
		s, other := kit.NewSession(t, server), kit.NewSession(t, server) // with leases of 30 s
		l := holder.of(s.RWMutex("lock", relock.WithFixedLease(lease)))
		owner := s.NewContext(kit.Background)
		kit.Lock(t, owner, l)
		locked := time.Now()
		kit.Lock(t, owner, l) // which does not prolong it
		require.LessOrEqual(t, pttl(t, client, "lock"), lease)
		done := l.Done()
		m := waiter.of(other.RWMutex("lock"))
		kit.Lock(t, kit.Background, m)
		require.ErrorIs(t, l.Err(), relock.ErrLost, "certain for less long than Redis keeps it")
		require.True(t, kit.IsClosed(done))
		require.Greater(t, time.Since(locked), lease/2)
		require.Less(t, time.Since(locked), lease+kit.Quickly)
		for range 2 {
			require.ErrorIs(t, l.Unlock(owner), relock.ErrLost)
		}
		require.ErrorIs(t, l.Unlock(owner), relock.ErrNotHeld)
		require.NoError(t, m.Err())
		require.Len(t, kit.HoldersOf(t, s, "lock"), 1)
		kit.Unlock(t, kit.Background, m)
		mustBeQuiet(t, client, "lock", s, other)
	})
}

func TestRWMutexFixedLeaseOfAReaderIsItsOwn(t *testing.T) {
	t.Parallel()
	const lease = 500 * time.Millisecond
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	s, other := kit.NewSession(t, server, relock.WithLease(2*time.Second)), kit.NewSession(t, server)
	shared, fixed := s.RWMutex("lock").RLocker(), s.RWMutex("lock", relock.WithFixedLease(lease)).RLocker()
	long := s.RWMutex("lock", relock.WithFixedLease(time.Hour)).RLocker()
	kit.Lock(t, kit.Background, shared)
	kit.Lock(t, kit.Background, fixed)
	kit.Lock(t, kit.Background, long)
	require.Len(t, kit.HoldersOf(t, s, "lock"), 3)
	kit.Receive(t, fixed.Done(), "the end of the fixed lease")
	redistest.Eventually(t, kit.Quickly, "its hold to end in Redis", func() bool { return len(leasesOf(t, server)) == 2 })
	require.ErrorIs(t, fixed.Err(), relock.ErrLost)
	require.False(t, kit.TryLock(t, kit.Background, other.RWMutex("lock")))
	time.Sleep(2 * time.Second) // a watchdog's lease
	require.NoError(t, shared.Err())
	require.NoError(t, long.Err())
	require.ErrorIs(t, fixed.Unlock(kit.Background), relock.ErrLost)
	require.False(t, kit.TryLock(t, kit.Background, other.RWMutex("lock")))
	kit.Unlock(t, kit.Background, shared)
	require.False(t, kit.TryLock(t, kit.Background, other.RWMutex("lock")))
	require.InDelta(t, time.Hour, pttl(t, client, "lock"), float64(time.Minute))
	kit.Unlock(t, kit.Background, long)
	require.True(t, kit.TryLock(t, kit.Background, other.RWMutex("lock")), "at once, and not after an hour")
}

// A holder that is stuck loses the lock at its bound; those that have none go on.
func TestRWMutexMaxHoldEndsAStuckHold(t *testing.T) {
	const lease, most = 3 * time.Second, 1200 * time.Millisecond
	eachPair(t, func(t *testing.T, holder, waiter side) {
		server := redistest.Start(t)
		client := kit.NewClient(t, server)
		s, other := kit.NewSession(t, server, relock.WithLease(lease)), kit.NewSession(t, server)
		stuck := holder.of(s.RWMutex("lock", relock.WithMaxHold(most)))
		var shared relock.Locker
		if holder == reading {
			shared = s.RWMutex("lock").RLocker()
			kit.Lock(t, kit.Background, shared)
		}
		start := time.Now()
		kit.Lock(t, kit.Background, stuck)
		done := stuck.Done()
		m := waiter.of(other.RWMutex("lock"))
		got := kit.Async(func() error { return m.Lock(kit.Background) })
		kit.Receive(t, done, "the bound to be reached")
		require.Greater(t, time.Since(start), most/2)
		require.ErrorIs(t, stuck.Err(), relock.ErrLost)
		require.ErrorIs(t, stuck.Unlock(kit.Background), relock.ErrLost)
		if shared != nil {
			require.NoError(t, shared.Err(), "renewed without end")
			require.Empty(t, got)
			kit.Unlock(t, kit.Background, shared)
		}
		require.NoError(t, kit.Receive(t, got, "the other side to get in"))
		kit.Unlock(t, kit.Background, m)
		mustBeQuiet(t, client, "lock", s, other)
	})
}

// Each writer that a hold in Redis is passed to has the bound of its own value.
func TestRWMutexMaxHoldIsPerWriter(t *testing.T) {
	t.Parallel()
	const lease, most = time.Second, 1200 * time.Millisecond
	s := kit.NewSession(t, redistest.Start(t), relock.WithLease(lease), relock.WithTenure(time.Hour))
	bounded, free := s.RWMutex("lock", relock.WithMaxHold(most)), s.RWMutex("lock")
	pass := func(from, to *relock.RWMutex) {
		t.Helper()
		got := kit.Async(func() error { return to.Lock(kit.Background) })
		redistest.Eventually(t, kit.Soon, "the next to wait", func() bool { _, n := peek.QueuedRW(s, "lock"); return n == 1 })
		kit.Unlock(t, kit.Background, from)
		require.NoError(t, kit.Receive(t, got, "the next"))
	}
	kit.Lock(t, kit.Background, bounded)
	pass(bounded, free)
	time.Sleep(most + lease)
	require.NoError(t, free.Err())
	pass(free, bounded)
	kit.Receive(t, bounded.Done(), "the bound to be reached")
	require.ErrorIs(t, bounded.Unlock(kit.Background), relock.ErrLost)
}

// Over leases of any length, what is held and renewed stays, on both sides at once.
func TestRWMutexIsRenewed(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server, relock.WithLease(lease)), kit.NewSession(t, server)
	r, w, owner := s.RWMutex("read").RLocker(), s.RWMutex("written"), s.NewContext(kit.Background)
	kit.Lock(t, kit.Background, r)
	kit.Lock(t, owner, w)
	kit.Lock(t, owner, w.RLocker())
	kit.Lock(t, kit.Background, other.RWMutex("read").RLocker())
	before, _ := w.Deadline()
	end := time.Now().Add(3 * lease)
	redistest.Eventually(t, kit.Soon, "three leases to pass", func() bool {
		require.NoError(t, r.Err())
		require.NoError(t, w.Err())
		require.NoError(t, w.RLocker().Err())
		return time.Now().After(end)
	})
	after, ok := w.Deadline()
	require.True(t, ok)
	require.Greater(t, after.Sub(before), lease, "the deadline moves with the renewals")
	require.Len(t, kit.HoldersOf(t, s, "read"), 2)
	require.Len(t, kit.HoldersOf(t, s, "written"), 2)
	kit.Unlock(t, kit.Background, r)
	kit.Unlock(t, owner, w.RLocker())
	kit.Unlock(t, owner, w)
}

// On miniredis time passes when it is told to: whoever does not renew is out after its
// lease, whatever its own clock says, and finds that out by its unlock. Others who
// read beside it stay.
func TestRWMutexLeasesStepByStep(t *testing.T) {
	const lease = time.Hour
	for _, c := range []struct {
		name           string
		holder, waiter side
		beside         bool // somebody else reads, with a longer lease
		free           bool // for the waiter, after the holder's lease
	}{
		{"reader then writer", reading, writing, false, true},
		{"reader then writer, and another reads on", reading, writing, true, false},
		{"writer then reader", writing, reading, false, true},
		{"writer then writer", writing, writing, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, client := redistest.Mini(t)
			s, other, third := kit.NewSession(t, m), kit.NewSession(t, m), kit.NewSession(t, m)
			l := c.holder.of(s.RWMutex("lock", relock.WithFixedLease(lease)))
			w := c.waiter.of(other.RWMutex("lock", relock.WithFixedLease(4*lease)))
			beside := third.RWMutex("lock", relock.WithFixedLease(3*lease)).RLocker()
			kit.Lock(t, kit.Background, l)
			if c.beside {
				kit.Lock(t, kit.Background, beside)
			}
			m.FastForward(lease - time.Second)
			require.False(t, kit.TryLock(t, kit.Background, w), "before the lease has ended")
			m.FastForward(time.Second)
			require.Equal(t, c.free, kit.TryLock(t, kit.Background, w))
			if c.beside {
				require.Equal(t, relock.Shared, inspect(t, s, "lock").Mode)
				m.FastForward(2 * lease)
				require.True(t, kit.TryLock(t, kit.Background, w), "after both leases")
				require.ErrorIs(t, beside.Unlock(kit.Background), relock.ErrLost)
			}
			require.NoError(t, l.Err(), "nobody has told it")
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
			require.Len(t, kit.HoldersOf(t, s, "lock"), 1, "the next one's hold stays")
			kit.Unlock(t, kit.Background, w)
			mustBeQuiet(t, client, "lock", s, other, third)
		})
	}
}
