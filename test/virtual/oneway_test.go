package virtual_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// What reaches a waiter is held back, and what it sends still arrives. It costs those behind it a grant timeout.
func TestDeafWaiterCostsOneGrantTimeout(t *testing.T) {
	for _, o := range []relock.LockOption{relock.WithLease(lease), relock.WithLease(10 * time.Minute)} {
		t.Run("", func(t *testing.T) {
			eachExclusive(t, func(t *testing.T, w *world) {
				holder, deaf, next := w.process(), w.process(), w.process()
				held := holder.held()
				deaf.wait(0, o)
				got := next.wait(0)
				time.Sleep(time.Second)
				deaf.networks(func(n *memredis.Process) { n.Cut(memredis.Down) })
				start := time.Now()
				require.NoError(t, held.Unlock(background))
				at := <-got
				t.Log(at.Sub(start))
				require.LessOrEqual(t, at.Sub(start), 2*claim)
				time.Sleep(time.Second)
				deaf.heal()
				time.Sleep(time.Minute)
			})
		})
	}
}

// The server's clock steps back while somebody waits. Those who come later do not starve him.
func TestNobodyStarvesAfterTheServersClockSteppedBack(t *testing.T) {
	for _, step := range []time.Duration{-30 * time.Second, -61 * time.Second, -10 * time.Minute} {
		t.Run(step.String(), func(t *testing.T) {
			eachExclusive(t, func(t *testing.T, w *world) {
				waits, ps := w.process(), []*process{w.process(), w.process(), w.process()}
				held := ps[0].held()
				got := waits.wait(0)
				time.Sleep(time.Second)
				w.redis[0].StepClock(step)
				var stop atomic.Bool
				for _, p := range ps {
					go func() {
						for l := p.lock(); !stop.Load(); {
							if l.Lock(background) == nil {
								time.Sleep(50 * time.Millisecond)
								_ = l.Unlock(background)
							}
						}
					}()
				}
				time.Sleep(time.Second)
				start := time.Now()
				require.NoError(t, held.Unlock(background))
				defer func() { stop.Store(true); time.Sleep(10 * time.Second) }()
				select {
				case at := <-got:
					t.Log(at.Sub(start))
				case <-time.After(2 * time.Minute):
					t.Error("starved for 2 min")
				}
			})
		})
	}
}
