package locks_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
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
