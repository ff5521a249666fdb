package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Done is closed when fewer than a majority of the deployments are certain, by the
// deadline that the hold had, whether they have gone or hang.
func TestLossOfAMajorityIsReported(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	for how, stop := range map[string]func(p *site, which ...int){
		"killed": func(p *site, which ...int) { p.kill(which...) },
		"frozen": func(p *site, which ...int) { p.freeze(t, which...) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := newSite(t, 5, relock.WithLease(lease))
			r := p.redlock("lock")
			p.fully(t, r)
			done := r.Done()
			stop(p, 0, 1)
			renewed(t, r, lease) // by the three others
			require.NoError(t, r.Err())
			require.False(t, kit.IsClosed(done))
			stop(p, 2)
			kit.WatchLoss(t, r)
			require.True(t, kit.IsClosed(done))
			p.nothingLeft(t) // on the two others, without Unlock
			require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrLost)
			require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
			if how == "frozen" {
				p.thaw(t, 0, 1, 2)
			} else {
				p.restart(t, 0, 1, 2)
			}
			kit.Lock(t, kit.Background, r)
			kit.Unlock(t, kit.Background, r)
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
	kit.Lock(t, kit.Background, r)
	done := r.Done()
	force := func(s *relock.Session) {
		was, err := s.ForceUnlock(kit.Background, "lock")
		require.NoError(t, err)
		require.True(t, was)
	}
	force(others[0])
	force(others[3])
	redistest.Eventually(t, kit.Soon, "it to be taken again", func() bool { return p.holders(t, "lock") == 5 })
	require.NoError(t, r.Err())
	require.False(t, kit.IsClosed(done))
	for _, s := range others[1:4] {
		force(s)
	}
	kit.Receive(t, done, "the loss") // long before a lease ends
	require.ErrorIs(t, r.Err(), relock.ErrLost)
	_, ok := r.Deadline()
	require.False(t, ok)
	p.nothingLeft(t)
	require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrLost)
}
