package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// force opens the lock on each server, for p or another process, and returns whether it was held.
func (p *process) force() (was bool) {
	p.w.t.Helper()
	for _, s := range p.s {
		for _, name := range p.w.typ.names {
			one, err := s.ForceUnlock(background, name)
			require.NoError(p.w.t, err)
			was = was || one
		}
	}
	return was
}

// Neither the holder nor who waits needs to look.
func TestForceUnlockIsToldAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for _, by := range []*process{p, other} {
			for _, to := range []*process{p, other} {
				l, next := p.held(), to.opposite()
				got := begin(background, next)
				time.Sleep(time.Second)
				start := time.Now()
				require.True(t, by.force())
				require.NoError(t, <-got)
				// After the turn of a process that wakes as well.
				require.LessOrEqual(t, time.Since(start), w.slow()+100*time.Millisecond)
				require.LessOrEqual(t, lost(t, l).Sub(start), w.slow()+100*time.Millisecond)
				require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
				require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
				require.NoError(t, next.Err(), "the next one's hold stays")
				require.NoError(t, next.Unlock(background))
				time.Sleep(time.Second)
				require.False(t, by.force())
			}
		}
	})
}

// The message that the lock was forced open may overtake the reply that grants it.
func TestLockForcedOpenBeforeItsReplyIsLostByThat(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if w.typ.redis > 1 || len(w.typ.names) > 1 {
			return // may try again
		}
		p, other := w.process(), w.process()
		const delay = 100 * time.Millisecond
		p.delay(delay)
		forced := kit.Async(func() time.Time {
			for w.free() {
				time.Sleep(delay / 10)
			}
			p.delay(0) // the reply is on its way
			at := time.Now()
			other.force()
			return at
		})
		l := p.held()
		// The message may follow a ping.
		require.LessOrEqual(t, lost(t, l).Sub(<-forced), 3*delay, "a renewal has found it")
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
	})
}
