package locks_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Servers that come back while the lock is held, without their data, are asked again.
// What they have then counts: the hold outlives the others.
func TestServersThatRestartEmptyAreRepairedWhileHeld(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	p := newSite(t, 5, relock.WithLease(lease))
	r, other := p.redlock("lock"), relock.NewRedlock(p.more(t, relock.WithLease(lease)), "lock")
	p.kill(2, 3) // when it is locked
	kit.Lock(t, kit.Background, r)
	done := r.Done()
	require.Equal(t, 3, p.holders(t, "lock"))
	whole := func() {
		t.Helper()
		redistest.Eventually(t, kit.Soon, "the hold to be on every server", func() bool { return p.holders(t, "lock") == 5 })
		require.NoError(t, r.Err())
		require.False(t, kit.IsClosed(done))
		require.False(t, kit.TryLock(t, kit.Background, other))
	}
	p.restart(t, 2, 3)
	whole()
	p.restart(t, 0, 4) // while it is held
	whole()
	p.kill(1, 2)
	renewed(t, r, lease) // by those two, and one that was always there
	require.NoError(t, r.Err())
	require.False(t, kit.IsClosed(done))
	kit.Unlock(t, kit.Background, r)
	p.nothingLeft(t)
	kit.Lock(t, kit.Background, other)
	kit.Unlock(t, kit.Background, other)
}

// WithMaxHold bounds what is taken again like the rest, from the start of the hold: here
// a majority is taken again.
func TestARepairDoesNotOutliveTheBoundOfARedlock(t *testing.T) {
	t.Parallel()
	const lease, most = 2 * time.Second, 4 * time.Second
	p := newSite(t, 3, relock.WithLease(lease))
	r := p.redlock("lock", relock.WithMaxHold(most))
	p.fully(t, r)
	latest := time.Now().Add(most + lease)
	done := r.Done()
	for i := range 2 {
		p.restart(t, i)
		redistest.Eventually(t, kit.Soon, "the hold to be on every server", func() bool { return p.holders(t, "lock") == 3 })
	}
	require.NoError(t, r.Err())
	for !kit.IsClosed(done) {
		asked := time.Now() // what goes by before it looks at the clock is added to the deadline
		if deadline, ok := r.Deadline(); ok {
			require.Less(t, deadline.Sub(latest)-time.Since(asked), 50*time.Millisecond, "of the deadline after the bound")
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.ErrorIs(t, r.Err(), relock.ErrLost)
	p.nothingLeft(t)
	require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrLost)
}

// hook is called at the next acquisition of a session.
type hook struct {
	relock.NopObserver
	f atomic.Pointer[func()]
}

func (h *hook) Acquired(_ context.Context, _ relock.AcquireEvent) {
	if f := h.f.Swap(nil); f != nil {
		(*f)()
	}
}

// Unlock comes when a part has just been had again, before the hold knows. It is given
// back: else it would be renewed for ever.
func TestAnUnlockDuringARepairLeavesNothing(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second // repairs begin after a twentieth of that
	var acquired hook
	p := newSite(t, 3, relock.WithLease(lease), relock.WithObserver(&acquired))
	r, other := p.redlock("lock"), p.more(t)[1]
	for range 5 {
		p.fully(t, r)
		unlocked := make(chan error, 1)
		f := func() {
			go func() { unlocked <- r.Unlock(kit.Background) }()
			time.Sleep(20 * time.Millisecond) // Unlock ends the repairs first, and waits for this one
		}
		acquired.f.Store(&f)
		was, err := other.ForceUnlock(kit.Background, "lock")
		require.NoError(t, err)
		require.True(t, was)
		require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
		p.nothingLeft(t)
	}
	kit.Lock(t, kit.Background, r)
	kit.Unlock(t, kit.Background, r)
	p.nothingLeft(t)
}

// granted returns how often a server has granted a lock.
func (p *site) granted(i int) int64 { return p.servers[i].CommandStats()["hset"] }

// The grants of a majority are on their way when the round is over. They are discarded:
// the call fails, and the servers that have granted are released long before the lease
// ends.
func TestGrantsThatComeAfterTheRoundAreGivenBack(t *testing.T) {
	t.Parallel()
	p := newSite(t, 5, relock.WithLease(10*time.Second)) // waits half a second for a reply
	r := p.redlock("lock")
	p.fully(t, r)
	kit.Unlock(t, kit.Background, r)
	for round := range 2 {
		before := [3]int64{p.granted(0), p.granted(1), p.granted(2)}
		for i := range before {
			p.proxies[i].Delay(400 * time.Millisecond) // each way
		}
		ok, err := r.TryLock(kit.Background)
		require.False(t, ok)
		require.Error(t, err)
		require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
		redistest.Eventually(t, kit.Quickly, "the late grants", func() bool {
			for i, n := range before {
				if p.granted(i) == n {
					return false
				}
			}
			return true
		})
		p.nothingLeft(t)
		for i := range before {
			p.proxies[i].Delay(0)
		}
		p.fully(t, r)
		require.NoError(t, r.Err(), "round %d", round)
		kit.Unlock(t, kit.Background, r)
		p.nothingLeft(t)
	}
}

// One server grants too late again and again, to a lock that is held without it.
func TestALateGrantDoesNotOutliveTheLock(t *testing.T) {
	t.Parallel()
	p := newSite(t, 5, relock.WithLease(10*time.Second))
	r := p.redlock("lock")
	p.fully(t, r)
	kit.Unlock(t, kit.Background, r)
	p.proxies[3].Delay(400 * time.Millisecond)
	before := p.granted(3)
	kit.Lock(t, kit.Background, r)
	redistest.Eventually(t, kit.Quickly, "grants that come too late", func() bool { return p.granted(3) >= before+2 })
	require.NoError(t, r.Err())
	kit.Unlock(t, kit.Background, r)
	p.nothingLeft(t)
	p.proxies[3].Delay(0)
	p.fully(t, r)
	kit.Unlock(t, kit.Background, r)
}
