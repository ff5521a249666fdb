package locks_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestRedlockWorksWithAMinorityDown(t *testing.T) {
	t.Parallel()
	p := newSite(t, 5)
	r, other := p.redlock("lock"), relock.NewRedlock(p.more(t), "lock")
	p.kill(1, 3)
	for range 3 {
		kit.Lock(t, kit.Background, r)
		require.NoError(t, r.Err())
		require.Equal(t, 3, p.holders(t, "lock"))
		require.False(t, kit.TryLock(t, kit.Background, other))
		kit.Unlock(t, kit.Background, r)
		require.True(t, kit.TryLock(t, kit.Background, r))
		kit.Unlock(t, kit.Background, r)
	}
	p.nothingLeft(t)
	kit.Lock(t, kit.Background, other)
	kit.Unlock(t, kit.Background, other)

	// So does one that is held already.
	p.restart(t, 1, 3)
	p.fully(t, r)
	p.kill(0, 4)
	for range 3 {
		ok, _ := other.TryLock(kit.Background) // may find out that its connections are broken
		require.False(t, ok)
	}
	require.NoError(t, r.Err())
	kit.Unlock(t, kit.Background, r)
	p.nothingLeft(t)
}

func TestRedlockFailsCleanlyWithAMajorityDown(t *testing.T) {
	t.Parallel()
	p := newSite(t, 5)
	r := p.redlock("lock")
	kit.Lock(t, kit.Background, r)
	kit.Unlock(t, kit.Background, r)
	p.kill(0, 2, 4)
	ok, err := r.TryLock(kit.Background)
	require.False(t, ok)
	require.Regexp(t, "deployment [135] of 5", err.Error()) // of those that were asked
	require.NotRegexp(t, "deployment [24] of 5", err.Error())
	require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
	require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
	p.nothingLeft(t)

	ctx, cancel := kit.ContextFor(100 * time.Millisecond)
	defer cancel()
	wantStopped(t, r.Lock(ctx), context.DeadlineExceeded)
	p.nothingLeft(t)

	// Lock rides it out.
	got := kit.Async(func() error { return r.Lock(kit.Background) })
	time.Sleep(20 * time.Millisecond) // so that it has failed before, in general
	require.Empty(t, got)
	p.restart(t, 2)
	require.NoError(t, kit.Receive(t, got, "the lock on the majority that is back"))
	require.Equal(t, 3, p.holders(t, "lock"))
	kit.Unlock(t, kit.Background, r)
	p.nothingLeft(t)
}

// One deployment that does not answer costs the call that finds that out its bound, a
// twentieth of the lease, and the next ones nothing: they do not ask it. When only a
// round that failed had that effect, every Lock and Unlock paid the bound.
func TestAFrozenDeploymentIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	p := newSite(t, 5, relock.WithLease(lease))
	r := p.redlock("lock")
	p.fully(t, r)
	kit.Unlock(t, kit.Background, r)
	asked := p.asked(4)
	p.freeze(t, 4)
	start := time.Now()
	for range 5 {
		kit.Lock(t, kit.Background, r)
		require.Equal(t, 4, p.holders(t, "lock"))
		kit.Unlock(t, kit.Background, r)
	}
	require.Less(t, time.Since(start), lease/2, "ten times what one may take")
	require.EqualValues(t, 1, asked.Load())
	p.thaw(t, 4)
	p.nothingLeft(t)
	p.fully(t, r)

	// It freezes while the lock is held: so does Unlock not wait for it for long.
	p.freeze(t, 4)
	start = time.Now()
	kit.Unlock(t, kit.Background, r)
	require.Zero(t, p.left(t))
	asked = p.asked(4)
	for range 5 {
		kit.Lock(t, kit.Background, r)
		kit.Unlock(t, kit.Background, r)
	}
	require.Less(t, time.Since(start), lease/2)
	require.Zero(t, asked.Load(), "Unlock has found out")
	p.thaw(t, 4)
	p.nothingLeft(t)
}

// Those that are left out, because they did not answer lately, are asked after all if the
// others are no majority. Only the next call did.
func TestADeploymentThatWasLeftOutIsTriedIfOthersFail(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3, relock.WithLease(10*time.Second))
	r := p.redlock("lock")
	p.fully(t, r)
	kit.Unlock(t, kit.Background, r)
	p.freeze(t, 2)
	kit.Lock(t, kit.Background, r)
	kit.Unlock(t, kit.Background, r)
	p.thaw(t, 2)
	p.nothingLeft(t)
	landed := p.breakNext(1)
	require.True(t, kit.TryLock(t, kit.Background, r)) // on the two others
	kit.Receive(t, landed, "the connection to break")
	kit.Unlock(t, kit.Background, r)
	p.nothingLeft(t)
}

func TestRedlockFailsCleanlyWithAMajorityFrozen(t *testing.T) {
	t.Parallel()
	p := newSite(t, 5, relock.WithLease(10*time.Second))
	r := p.redlock("lock")
	kit.Lock(t, kit.Background, r)
	kit.Unlock(t, kit.Background, r)
	p.freeze(t, 1, 2, 3)
	ok, err := r.TryLock(kit.Background)
	require.False(t, ok)
	require.ErrorContains(t, err, "deployment 2 of 5")
	require.NotContains(t, err.Error(), "deployment 1 of 5")
	p.nothingLeft(t)
	ctx, cancel := kit.ContextFor(100 * time.Millisecond)
	defer cancel()
	wantStopped(t, r.Lock(ctx), context.DeadlineExceeded)
	p.nothingLeft(t)
	got := kit.Async(func() error { return r.Lock(kit.Background) })
	p.thaw(t, 2) // two are frozen
	require.NoError(t, kit.Receive(t, got, "the lock on a majority"))
	p.thaw(t, 1, 3) // they execute what was sent to them; the hold takes them in
	redistest.Eventually(t, kit.Soon, "the hold to be on every server", func() bool { return p.holders(t, "lock") == 5 })
	require.NoError(t, r.Err())
	kit.Unlock(t, kit.Background, r)
	p.nothingLeft(t)
}

// Unlock waits for a majority that hangs as long as for one deployment; the release goes on in
// the background.
func TestUnlockOfARedlockWithAMajorityFrozen(t *testing.T) {
	t.Parallel()
	const lease = 20 * time.Second
	p := newSite(t, 5, relock.WithLease(lease))
	r := p.redlock("lock")
	p.fully(t, r)
	p.freeze(t, 0, 1, 4)
	start := time.Now()
	require.NoError(t, r.Unlock(kit.Background), "it was certain when Unlock was called")
	require.Less(t, time.Since(start), lease/2, "ten times what it waits for")
	require.Zero(t, p.left(t), "on those that answer")
	require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
	require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
	p.thaw(t, 0, 1, 4)
	p.nothingLeft(t)
	p.fully(t, r)
	kit.Unlock(t, kit.Background, r)
}

// breakNext breaks the connection to a server at the next acquisition there.
func (p *site) breakNext(i int) (landed <-chan struct{}) {
	return p.proxies[i].DropReplies(func(request []byte) bool { return bytes.Contains(request, []byte("relock_fence")) })
}

// A connection that breaks is no reason to do without a deployment: it has cost no time,
// and the next call makes another.
func TestADeploymentWhoseConnectionBreaksIsTriedAgain(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	r := p.redlock("lock")
	p.fully(t, r)
	kit.Unlock(t, kit.Background, r)
	asked := p.asked(1)
	for range 3 {
		landed := p.breakNext(1)
		kit.Lock(t, kit.Background, r) // on the two others
		kit.Receive(t, landed, "the connection to break")
		kit.Unlock(t, kit.Background, r)
		n := asked.Load()
		for range 10 { // of some 1,000 in the time for which one that hangs is left out
			kit.Lock(t, kit.Background, r)
			kit.Unlock(t, kit.Background, r)
		}
		require.Greater(t, asked.Load(), n)
		p.fully(t, r)
		kit.Unlock(t, kit.Background, r)
	}
	p.nothingLeft(t)
}
