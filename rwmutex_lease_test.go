package relock_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
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
		client := newClient(t, server)
		s, other := newSession(t, server), newSession(t, server) // with leases of 30 s
		l := holder.of(s.RWMutex("lock", relock.WithLease(lease)))
		owner := s.NewContext(background)
		lock(t, owner, l)
		locked := time.Now()
		lock(t, owner, l) // which does not prolong it
		require.LessOrEqual(t, pttl(t, client, "lock"), lease)
		done := l.Done()
		m := waiter.of(other.RWMutex("lock"))
		lock(t, background, m)
		require.ErrorIs(t, l.Err(), relock.ErrLost, "certain for less long than Redis keeps it")
		require.True(t, isClosed(done))
		require.Greater(t, time.Since(locked), lease/2)
		require.Less(t, time.Since(locked), lease+quickly)
		for range 2 {
			require.ErrorIs(t, l.Unlock(owner), relock.ErrLost)
		}
		require.ErrorIs(t, l.Unlock(owner), relock.ErrNotHeld)
		require.NoError(t, m.Err())
		require.Len(t, holdersOf(t, s, "lock"), 1)
		unlock(t, background, m)
		mustBeQuiet(t, client, "lock", s, other)
	})
}

func TestRWMutexFixedLeaseOfAReaderIsItsOwn(t *testing.T) {
	t.Parallel()
	const lease = 500 * time.Millisecond
	server := redistest.Start(t)
	client := newClient(t, server)
	s, other := newSession(t, server, relock.WithWatchdog(2*time.Second)), newSession(t, server)
	shared, fixed := s.RWMutex("lock").RLocker(), s.RWMutex("lock", relock.WithLease(lease)).RLocker()
	long := s.RWMutex("lock", relock.WithLease(time.Hour)).RLocker()
	lock(t, background, shared)
	lock(t, background, fixed)
	lock(t, background, long)
	require.Len(t, holdersOf(t, s, "lock"), 3)
	receive(t, fixed.Done(), "the end of the fixed lease")
	redistest.Eventually(t, quickly, "its hold to end in Redis", func() bool { return len(leasesOf(t, server)) == 2 })
	require.ErrorIs(t, fixed.Err(), relock.ErrLost)
	require.False(t, tryLock(t, background, other.RWMutex("lock")))
	time.Sleep(2 * time.Second) // a watchdog's lease
	require.NoError(t, shared.Err())
	require.NoError(t, long.Err())
	require.ErrorIs(t, fixed.Unlock(background), relock.ErrLost)
	require.False(t, tryLock(t, background, other.RWMutex("lock")))
	unlock(t, background, shared)
	require.False(t, tryLock(t, background, other.RWMutex("lock")))
	require.InDelta(t, time.Hour, pttl(t, client, "lock"), float64(time.Minute))
	unlock(t, background, long)
	require.True(t, tryLock(t, background, other.RWMutex("lock")), "at once, and not after an hour")
}

// A holder that is stuck is renewed up to its bound; those that have none go on.
func TestRWMutexMaxHoldEndsAStuckHold(t *testing.T) {
	const lease, most = 3 * time.Second, 1200 * time.Millisecond // renewed once, after a third
	eachPair(t, func(t *testing.T, holder, waiter side) {
		server := redistest.Start(t)
		client := newClient(t, server)
		s, other := newSession(t, server, relock.WithWatchdog(lease)), newSession(t, server)
		stuck := holder.of(s.RWMutex("lock", relock.WithMaxHold(most)))
		var shared relock.Locker
		if holder == reading {
			shared = s.RWMutex("lock").RLocker()
			lock(t, background, shared)
		}
		start := time.Now()
		lock(t, background, stuck)
		done := stuck.Done()
		m := waiter.of(other.RWMutex("lock"))
		got := async(func() error { return m.Lock(background) })
		receive(t, done, "the bound to be reached")
		require.Greater(t, time.Since(start), lease, "it was renewed at first")
		require.ErrorIs(t, stuck.Err(), relock.ErrLost)
		require.ErrorIs(t, stuck.Unlock(background), relock.ErrLost)
		if shared != nil {
			require.NoError(t, shared.Err(), "renewed without end")
			require.Empty(t, got)
			unlock(t, background, shared)
		}
		require.NoError(t, receive(t, got, "the other side to get in"))
		unlock(t, background, m)
		mustBeQuiet(t, client, "lock", s, other)
	})
}

// Each writer that a hold in Redis is passed to has the bound of its own value.
func TestRWMutexMaxHoldIsPerWriter(t *testing.T) {
	t.Parallel()
	const lease, most = time.Second, 1200 * time.Millisecond
	s := newSession(t, redistest.Start(t), relock.WithWatchdog(lease), relock.WithTenure(time.Hour))
	bounded, free := s.RWMutex("lock", relock.WithMaxHold(most)), s.RWMutex("lock")
	pass := func(from, to *relock.RWMutex) {
		t.Helper()
		got := async(func() error { return to.Lock(background) })
		redistest.Eventually(t, soon, "the next to wait", func() bool { _, n := peek.QueuedRW(s, "lock"); return n == 1 })
		unlock(t, background, from)
		require.NoError(t, receive(t, got, "the next"))
	}
	lock(t, background, bounded)
	pass(bounded, free)
	time.Sleep(most + lease)
	require.NoError(t, free.Err())
	pass(free, bounded)
	receive(t, bounded.Done(), "the bound to be reached")
	require.ErrorIs(t, bounded.Unlock(background), relock.ErrLost)
}

// Over leases of any length, what is held and renewed stays, on both sides at once.
func TestRWMutexIsRenewed(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	server := redistest.Start(t)
	s, other := newSession(t, server, relock.WithWatchdog(lease)), newSession(t, server)
	r, w, owner := s.RWMutex("read").RLocker(), s.RWMutex("written"), s.NewContext(background)
	lock(t, background, r)
	lock(t, owner, w)
	lock(t, owner, w.RLocker())
	lock(t, background, other.RWMutex("read").RLocker())
	before, _ := w.Deadline()
	end := time.Now().Add(3 * lease)
	redistest.Eventually(t, soon, "three leases to pass", func() bool {
		require.NoError(t, r.Err())
		require.NoError(t, w.Err())
		require.NoError(t, w.RLocker().Err())
		return time.Now().After(end)
	})
	after, ok := w.Deadline()
	require.True(t, ok)
	require.Greater(t, after.Sub(before), lease, "the deadline moves with the renewals")
	require.Len(t, holdersOf(t, s, "read"), 2)
	require.Len(t, holdersOf(t, s, "written"), 2)
	unlock(t, background, r)
	unlock(t, owner, w.RLocker())
	unlock(t, owner, w)
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
			s, other, third := newSession(t, m), newSession(t, m), newSession(t, m)
			l := c.holder.of(s.RWMutex("lock", relock.WithLease(lease)))
			w := c.waiter.of(other.RWMutex("lock", relock.WithLease(4*lease)))
			beside := third.RWMutex("lock", relock.WithLease(3*lease)).RLocker()
			lock(t, background, l)
			if c.beside {
				lock(t, background, beside)
			}
			m.FastForward(lease - time.Second)
			require.False(t, tryLock(t, background, w), "before the lease has ended")
			m.FastForward(time.Second)
			require.Equal(t, c.free, tryLock(t, background, w))
			if c.beside {
				require.Equal(t, relock.Shared, inspect(t, s, "lock").Mode)
				m.FastForward(2 * lease)
				require.True(t, tryLock(t, background, w), "after both leases")
				require.ErrorIs(t, beside.Unlock(background), relock.ErrLost)
			}
			require.NoError(t, l.Err(), "nobody has told it")
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			require.Len(t, holdersOf(t, s, "lock"), 1, "the next one's hold stays")
			unlock(t, background, w)
			mustBeQuiet(t, client, "lock", s, other, third)
		})
	}
}
