package relock_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Done is closed when fewer than a majority of the deployments are certain, by the
// deadline that the hold had, whether they have gone or hang.
func TestLossOfAMajorityIsTold(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	for how, stop := range map[string]func(p *site, which ...int){
		"killed": func(p *site, which ...int) { p.kill(which...) },
		"frozen": func(p *site, which ...int) { p.freeze(t, which...) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := newSite(t, 5, relock.WithWatchdog(lease))
			r := p.redlock("lock")
			p.fully(t, r)
			done := r.Done()
			stop(p, 0, 1)
			renewed(t, r, lease) // by the three others
			require.NoError(t, r.Err())
			require.False(t, isClosed(done))
			stop(p, 2)
			watchLoss(t, r)
			require.True(t, isClosed(done))
			p.nothingLeft(t) // on the two others, without Unlock
			require.ErrorIs(t, r.Unlock(background), relock.ErrLost)
			require.ErrorIs(t, r.Unlock(background), relock.ErrNotHeld)
			if how == "frozen" {
				p.thaw(t, 0, 1, 2)
			} else {
				p.restart(t, 0, 1, 2)
			}
			lock(t, background, r)
			unlock(t, background, r)
			p.nothingLeft(t)
		})
	}
}

// Forced open on a minority it is taken again there; on a majority it is lost, and that
// is told at once.
func TestARedlockThatIsForcedOpenIsLostWithItsMajority(t *testing.T) {
	t.Parallel()
	p := newSite(t, 5)
	r, others := p.redlock("lock"), p.more(t)
	lock(t, background, r)
	done := r.Done()
	force := func(s *relock.Session) {
		was, err := s.ForceUnlock(background, "lock")
		require.NoError(t, err)
		require.True(t, was)
	}
	force(others[0])
	force(others[3])
	redistest.Eventually(t, soon, "it to be taken again", func() bool { return p.holders(t, "lock") == 5 })
	require.NoError(t, r.Err())
	require.False(t, isClosed(done))
	for _, s := range others[1:4] {
		force(s)
	}
	receive(t, done, "the loss") // long before a lease ends
	require.ErrorIs(t, r.Err(), relock.ErrLost)
	_, ok := r.Deadline()
	require.False(t, ok)
	p.nothingLeft(t)
	require.ErrorIs(t, r.Unlock(background), relock.ErrLost)
}
