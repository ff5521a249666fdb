package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// p1 took the lock by a TryLock with WithKeep, and a goroutine of it waits, and p2. p2 gets the lock, and hands it to
// p3, which works on with WithKeep: the goroutine of p1 starved until its context ended.
func TestLockBehindATryLockThatKeepsDoesNotStarve(t *testing.T) {
	for name, row := range map[string]struct {
		handsOff bool
		fault    func(p *process)
	}{
		"handed off":        {true, func(*process) {}},
		"connection breaks": {false, func(p *process) { p.networks((*memredis.Process).Break) }},
		"both":              {true, func(p *process) { p.networks((*memredis.Process).Break) }},
		"lost message": {true, func(p *process) {
			p.networks(func(n *memredis.Process) { n.LoseMessage("wanted ") })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onKept(t, func(t *testing.T, w *world) {
				p1, p2, p3 := w.process(), w.process(), w.process()
				first := p1.s[0].Mutex("a", keeps)
				ok, err := first.TryLock(background)
				require.NoError(t, err)
				require.True(t, ok)
				second := kit.Async(func() *relock.Hold {
					h, err := p2.s[0].Mutex("a").Acquire(background)
					require.NoError(t, err)
					return h
				})
				time.Sleep(50 * time.Millisecond)
				ctx, cancel := context.WithTimeout(background, 2*time.Minute)
				defer cancel()
				waits := kit.Async(func() error {
					h, err := p1.s[0].Mutex("a", keeps).Acquire(ctx)
					if err != nil {
						return err
					}
					time.Sleep(10 * time.Millisecond)
					return h.Unlock(background)
				})
				time.Sleep(50 * time.Millisecond)
				start := time.Now()
				require.NoError(t, first.Unlock(background))
				held := <-second
				row.fault(p1)
				if row.handsOff {
					ticket, err := held.Handoff(background, time.Minute)
					require.NoError(t, err)
					held, err = p3.s[0].Adopt(background, ticket, keeps)
					require.NoError(t, err)
				} else {
					require.NoError(t, held.Unlock(background))
					held, err = p3.s[0].Mutex("a", keeps).Acquire(background)
					require.NoError(t, err)
				}
				row.fault(p3)
				stop := make(chan struct{})
				works := kit.Async(func() error { // in sections of 200 ms
					for {
						time.Sleep(200 * time.Millisecond)
						if err := held.Unlock(background); err != nil {
							return err
						}
						select {
						case <-stop:
							return nil
						default:
						}
						h, err := p3.s[0].Mutex("a", keeps).Acquire(background)
						if err != nil {
							return err
						}
						held = h
					}
				})
				err = <-waits
				close(stop)
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(start), 10*time.Second)
				require.NoError(t, <-works)
			})
		})
	}
}

// A process ends right after its TryLock with WithKeep has asked for a lock that another process only keeps.
func TestTryLockOfAProcessThatEndsHoldsUpNobody(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		keeper, dies, other := w.process(), w.process(), w.process()
		keeper.keptBy()
		memredis.Of(w.redis[0], keeper.s[0]).LoseMessage("wanted ")
		_ = tries(background, dies.s[0])
		synctest.Wait()
		dies.networks(func(n *memredis.Process) { n.Vanish(false) })
		start := time.Now()
		l := other.lock()
		require.NoError(t, l.Lock(background))
		require.LessOrEqual(t, time.Since(start), 2*claim)
		require.NoError(t, l.Unlock(background))
	})
}

// A TryLock of what its own process keeps, with another lease, took nearly 5 s.
func TestTryLockOfWhatItsProcessKeepsIsBounded(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		p.keptBy()
		heal := p.partition()
		defer heal()
		var err error
		most := took(func() { _, err = p.s[0].Mutex("a", relock.WithLease(time.Minute)).TryLock(background) })
		require.ErrorIs(t, err, relock.ErrUnavailable)
		require.LessOrEqual(t, most, 3*time.Second)
	})
}
