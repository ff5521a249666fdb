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

// Neither the holder nor who waits needs to look if the lock is forced open, by a session of theirs or by another one.
// If it is deleted, the holder is told by its next renewal, and who waits gets in within seconds; a goroutine of
// the same process when the holder is told.
func TestOpenedLockIsLostAndFreeSoon(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		atOnce := w.slow() + 100*time.Millisecond // after the turn of a process that wakes as well
		for _, row := range []struct {
			open       func()
			to         *process
			free, told time.Duration // within which the waiter gets in, and the holder is told
		}{
			{func() { require.True(t, p.force()) }, p, atOnce, atOnce},
			{func() { require.True(t, p.force()) }, other, atOnce, atOnce},
			{func() { require.True(t, other.force()) }, p, atOnce, atOnce},
			{func() { require.True(t, other.force()) }, other, atOnce, atOnce},
			{w.del, p, lease/3 + 5*time.Second, lease/3 + time.Second},
			{w.del, other, 5 * time.Second, lease/3 + time.Second},
		} {
			l, next := p.held(), row.to.opposite()
			got := kit.Async(func() time.Time { _ = next.Lock(background); return time.Now() })
			time.Sleep(5 * time.Second)
			start := time.Now()
			row.open()
			require.LessOrEqual(t, (<-got).Sub(start), row.free)
			require.LessOrEqual(t, lost(t, l).Sub(start), row.told)
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
			require.NoError(t, next.Err(), "the late Unlock ended the next one's hold")
			require.NoError(t, next.Unlock(background))
			time.Sleep(time.Second)
			require.False(t, other.force())
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

// The release of an Unlock, or of a Handoff, finds that somebody has forced the lock open while it was on its way.
func TestForcedOpenDuringUnlock(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.held()
		p.delay(300 * time.Millisecond)
		unlocked := kit.Async(func() error { return l.Unlock(background) })
		time.Sleep(100 * time.Millisecond)
		for _, s := range other.s {
			for _, name := range w.typ.names {
				was, err := s.ForceUnlock(background, name)
				require.NoError(t, err)
				require.True(t, was)
			}
		}
		require.ErrorIs(t, <-unlocked, relock.ErrForced)
	})
}
