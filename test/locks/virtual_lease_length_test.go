package locks_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// A lock with a lease of its own is renewed to that length every third of it, beside others
// with the session's; when the process dies it is free by the end of its own lease.
func TestALockMayHaveALeaseOfItsOwn(t *testing.T) {
	for _, lease := range []time.Duration{6 * time.Second, 3 * time.Minute} { // the session's is 30 s
		t.Run(lease.String(), func(t *testing.T) {
			eachInBubble(t, func(t *testing.T, k lockType) {
				m := virtualServer(t)
				holder, other := startVirtual(t, m), startVirtual(t, m)
				l, usual := k.of(holder.Session, relock.WithLease(lease)), holder.Mutex("another")
				kit.Lock(t, kit.Background, usual)
				kit.Lock(t, kit.Background, l)
				for range 100 {
					time.Sleep(lease / 7)
					require.NoError(t, l.Err())
					left := m.TTL("lock")
					require.LessOrEqual(t, left, lease)
					require.Greater(t, left, lease*6/10, "it was not renewed at a third of its lease")
				}
				require.NoError(t, usual.Err())

				got := kit.Async(func() error { return k.opposite(other.Session).Lock(kit.Background) })
				time.Sleep(time.Second)
				left := m.TTL("lock")
				if k.group() { // lost with the first of its members
					left = min(left, m.TTL("usual"))
				}
				holder.net.die()
				start := time.Now()
				lostBy(t, l, left)
				require.Less(t, time.Since(start), left, "it was certain for longer than Redis keeps it")
				require.Greater(t, time.Since(start), left-lease/100-time.Second)
				left = m.TTL("lock")
				if k.group() {
					left = max(left, m.TTL("usual"))
				}
				start = time.Now()
				require.NoError(t, <-got)
				require.Less(t, time.Since(start), max(0, left)+time.Second)
			})
		})
	}
}

// The hold has the lease of the value that acquired it, whichever value its owner locks again
// through.
func TestReentryKeepsTheLeaseOfTheAcquisition(t *testing.T) {
	eachInBubble(t, func(t *testing.T, k lockType) {
		m := virtualServer(t)
		s := startVirtual(t, m)
		owner := s.NewContext(kit.Background)
		for _, leases := range [][2]time.Duration{{time.Minute, 6 * time.Second}, {6 * time.Second, time.Minute}} {
			first, again := k.of(s.Session, relock.WithLease(leases[0])), k.of(s.Session, relock.WithLease(leases[1]))
			kit.Lock(t, owner, first)
			kit.Lock(t, owner, again)
			for range 20 {
				time.Sleep(leases[0] / 7)
				require.InDelta(t, leases[0]*8/10, m.TTL("lock"), float64(leases[0]*2/10))
			}
			kit.Unlock(t, owner, first)
			require.NoError(t, again.Err())
			kit.Unlock(t, owner, again)
		}
	})
}

// A hold is passed on among values with leases of one length; for another length it is released,
// and acquired with that.
func TestAHoldIsPassedOnAmongEqualLeases(t *testing.T) {
	leases := map[string]relock.Option{
		"none": nil, "the session's": relock.WithLease(30 * time.Second), "short": relock.WithLease(6 * time.Second),
	}
	for _, c := range []struct {
		from, to string
		passed   bool
	}{
		{"none", "none", true}, {"none", "the session's", true}, {"short", "short", true},
		{"none", "short", false}, {"short", "none", false},
	} {
		for _, k := range lockTypes {
			if k.name != "mutex" && k.name != "writer" && k.name != "redlock" {
				continue // not passed on at all
			}
			t.Run(fmt.Sprint(k.name, " from ", c.from, " to ", c.to), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(t *testing.T) {
					m := virtualServer(t)
					s := startVirtual(t, m, relock.WithTenure(time.Hour))
					from, to := k.of(s.Session, leases[c.from]), k.of(s.Session, leases[c.to])
					kit.Lock(t, kit.Background, from)
					fields, err := m.HKeys("lock")
					require.NoError(t, err)
					got := kit.Async(func() error { return to.Lock(kit.Background) })
					synctest.Wait()
					kit.Unlock(t, kit.Background, from)
					require.NoError(t, <-got)
					after, err := m.HKeys("lock")
					require.NoError(t, err)
					require.Equal(t, c.passed, fmt.Sprint(fields) == fmt.Sprint(after))
					want := map[string]time.Duration{"none": 30, "the session's": 30, "short": 6}[c.to] * time.Second
					for range 30 {
						time.Sleep(want / 7)
						require.InDelta(t, want*8/10, m.TTL("lock"), float64(want*2/10))
					}
					kit.Unlock(t, kit.Background, to)
				})
			})
		}
	}
}

// Readers of a session share one hold in Redis if their leases have the session's length. Others
// have one of their own, and go on when the shared one is over.
func TestReadersWithALeaseOfTheirOwn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := virtualServer(t)
		s, other := startVirtual(t, m), startVirtual(t, m)
		usual, same := s.RWMutex("lock").RLocker(), s.RWMutex("lock", relock.WithLease(30*time.Second)).RLocker()
		short := s.RWMutex("lock", relock.WithLease(6*time.Second)).RLocker()
		for _, l := range []relock.Locker{usual, same, short, short, short} {
			kit.Lock(t, kit.Background, l)
		}
		require.Len(t, kit.HoldersOf(t, other.Session, "lock"), 1+3)
		time.Sleep(10 * time.Minute)
		kit.Unlock(t, kit.Background, usual)
		kit.Unlock(t, kit.Background, same)
		require.Len(t, kit.HoldersOf(t, other.Session, "lock"), 3)
		for range 3 {
			require.False(t, kit.TryLock(t, kit.Background, other.RWMutex("lock")))
			require.LessOrEqual(t, m.TTL("lock"), 30*time.Second)
			time.Sleep(10 * time.Minute)
			require.NoError(t, short.Err())
			kit.Unlock(t, kit.Background, short)
		}
		require.ErrorIs(t, short.Err(), relock.ErrNotHeld)
		require.True(t, kit.TryLock(t, kit.Background, other.RWMutex("lock")))
	})
}

// A waiter whose process stands still keeps the lock that it was given from the others for a lease
// of the lock, not of the session.
func TestAFrozenWaiterOfAShortLeaseCostsThatLease(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		const lease = 2 * time.Second
		m := virtualServer(t)
		holder, frozen, next := startVirtual(t, m), startVirtual(t, m), startVirtual(t, m)
		of := func(p virtualProcess) *relock.FairMutex { return p.FairMutex("lock", relock.WithLease(lease)) }
		held := of(holder)
		kit.Lock(t, kit.Background, held)
		var got []<-chan error
		for i, p := range []virtualProcess{frozen, next} {
			got = append(got, kit.Async(func() error { return of(p).Lock(kit.Background) }))
			synctest.Wait()
			require.Equal(t, i+1, inspect(t, holder.Session, "lock").Waiters)
		}
		frozen.net.freeze(true)
		kit.Unlock(t, kit.Background, held)
		start := time.Now()
		require.NoError(t, <-got[1])
		require.Less(t, time.Since(start), lease+50*time.Millisecond)
		require.Greater(t, time.Since(start), lease-50*time.Millisecond)
		select {
		case err := <-got[0]:
			require.Fail(t, "it has the lock", "%v", err)
		default:
		}
	})
}

// A waiter with a short lease is given the lock by a message alone: it looks so often that its
// claim is certain when that arrives.
func TestAShortLeaseIsClaimedWithoutARoundTrip(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := virtualServer(t)
		holder, next := startVirtual(t, m), startVirtual(t, m)
		l := next.FairMutex("lock", relock.WithLease(time.Second))
		for i := range 20 {
			held := holder.FairMutex("lock") // whose lease would be no reason to look
			kit.Lock(t, kit.Background, held)
			got := kit.Async(func() error { return l.Lock(kit.Background) })
			time.Sleep(7*time.Second + time.Duration(i)*70*time.Millisecond)
			kit.Unlock(t, kit.Background, held)
			next.net.sends(false) // what it has heard must do
			require.NoError(t, kit.Receive(t, got, "the grant"))
			next.net.sends(true)
			kit.Unlock(t, kit.Background, l)
		}
	})
}
