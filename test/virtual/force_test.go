package virtual_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/wire"
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
				require.LessOrEqual(t, time.Since(start), w.slow()+100*time.Millisecond) // after the turn of a process that wakes as well
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

// holders returns who holds the locks, and open opens those that nobody else holds.
func (p *process) holders() (ids [][]string) {
	p.w.t.Helper()
	for _, s := range p.s {
		for _, name := range p.w.typ.names {
			st, err := s.Inspect(background, name)
			require.NoError(p.w.t, err)
			ids = append(ids, nil)
			for _, h := range st.Holders {
				ids[len(ids)-1] = append(ids[len(ids)-1], h.ID)
			}
		}
	}
	return ids
}

func (p *process) open(holders [][]string) (was bool, err error) {
	for i, ids := range holders {
		one, failed := peek.Open(background, p.s[i/len(p.w.typ.names)], p.w.typ.names[i%len(p.w.typ.names)], ids)
		was, err = was || one, errors.Join(err, failed)
	}
	return was, err
}

// The operator's answer comes when the lock has changed hands: it is not about the new hold.
func TestOpeningAHoldSparesTheNextOne(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other, operator := w.process(), w.process(), w.process()
		l := p.held()
		shown := operator.holders()
		require.NoError(t, l.Unlock(background))
		time.Sleep(time.Second) // what a Redlock has to do in the background
		was, err := operator.open(shown)
		require.NoError(t, err)
		require.False(t, was, "nobody holds it")
		for _, next := range []*process{p, other} {
			l := next.held()
			was, err := operator.open(shown)
			require.ErrorIs(t, err, wire.ErrOtherHolder)
			require.False(t, was)
			time.Sleep(time.Minute)
			require.NoError(t, l.Err())
			now := operator.holders()
			was, err = operator.open(now)
			require.NoError(t, err)
			require.True(t, was)
			lost(t, l)
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		}
	})
}

// Which of two goroutines calls a bare Unlock cannot be known: the one whose hold was lost, or the
// one that has the lock now. So through the value of the loss nobody without an owner gets in
// before the lost hold was unlocked; all others do.
func TestWhoSharesAValueWithALostHoldWaitsForItsUnlock(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l, owner := p.held(), p.s[0].NewContext(background)
		p.force()
		lost(t, l)
		_, err := l.TryLock(background)
		require.ErrorIs(t, err, relock.ErrLost)
		got := make(chan error, 1)
		go func() { got <- l.Lock(background) }()
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		require.ErrorIs(t, l.Lock(ctx), context.DeadlineExceeded, "nor does waiting help")
		for range 3 { // past the one that waits
			require.NoError(t, p.held().Unlock(background))
			require.NoError(t, l.Lock(owner))
			require.NoError(t, l.Unlock(owner))
		}
		require.Empty(t, got)
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		require.NoError(t, <-got)
		require.NoError(t, l.Unlock(background))
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)

		// One that waits like this ends with the session, and the unlock is due all the same.
		require.NoError(t, l.Lock(background))
		p.force()
		lost(t, l)
		go func() { got <- l.Lock(background) }()
		time.Sleep(time.Second)
		require.NoError(t, p.closeAll(time.Minute))
		require.ErrorIs(t, <-got, relock.ErrClosed)
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
	})
}

// A session closes while goroutines of it and of others wait: its holders are told, its waiters
// end, nothing of it is left, and who waits elsewhere gets in at once.
func TestCloseLetsTheOthersIn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l, next := p.held(), other.opposite()
		got := begin(background, next)
		ended := make(chan error, 4)
		for i := range cap(ended) {
			ctx := []context.Context{background, p.s[0].NewContext(background)}[i%2]
			go func() { ended <- p.opposite().Lock(ctx) }()
		}
		time.Sleep(time.Minute)
		start := time.Now()
		require.NoError(t, p.closeAll(time.Minute))
		for range cap(ended) {
			err := <-ended
			require.ErrorIs(t, err, relock.ErrClosed)
			require.NotErrorIs(t, err, context.Canceled)
		}
		require.NoError(t, <-got)
		require.LessOrEqual(t, time.Since(start), w.slow()+100*time.Millisecond)
		lost(t, l)
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		require.NoError(t, next.Err())
		require.NoError(t, next.Unlock(background))
		time.Sleep(time.Second)
		require.True(t, w.free())
		require.ErrorIs(t, l.Lock(background), relock.ErrClosed)
		_, err := l.TryLock(background)
		require.ErrorIs(t, err, relock.ErrClosed)
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
		forced := make(chan time.Time, 1)
		go func() {
			for w.free() {
				time.Sleep(delay / 10)
			}
			p.delay(0) // the reply is on its way
			forced <- time.Now()
			other.force()
		}()
		l := p.held()
		require.LessOrEqual(t, lost(t, l).Sub(<-forced), 3*delay, "a renewal has found it") // the message may follow a ping
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
	})
}
