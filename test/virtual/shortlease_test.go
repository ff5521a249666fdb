package virtual_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// A waiter of a short lease does not ask more often than others while Redis answers LOADING.
func TestWaitersOfShortLeasesDoNotHammerAServerThatLoads(t *testing.T) {
	alone(t, fair, func(t *testing.T, w *world) {
		holder, p := w.process(), w.process()
		holder.held()
		for _, length := range []time.Duration{60 * time.Millisecond, 200 * time.Millisecond, time.Second, lease} {
			ctx, cancel := context.WithCancel(background)
			got := begin(ctx, p.lock(relock.WithLease(length)))
			time.Sleep(time.Second)
			var n atomic.Int64
			holder.onScripts(func() string { n.Add(1); return "LOADING Redis is loading the dataset in memory" })
			time.Sleep(10 * time.Second)
			holder.onScripts(func() string { return "" })
			require.Positive(t, n.Load())
			assert.LessOrEqual(t, n.Load(), int64(300), "lease %v", length)
			cancel()
			<-got
			time.Sleep(lease / 3) // the holder renews its lease
		}
	})
}

// Redis answers, from afar: a waiter of a short lease whose ctx ends is not told that there was no answer.
func TestFarWaiterOfAShortLeaseIsNotToldThatRedisIsSilent(t *testing.T) {
	alone(t, fair, func(t *testing.T, w *world) {
		holder, p := w.process(), w.process()
		holder.held()
		for _, far := range []time.Duration{10, 20, 30, 40, 45} {
			p.delay(far * time.Millisecond)
			for i := range 40 {
				ctx, cancel := context.WithTimeout(background, 2*time.Second+time.Duration(i)*7*time.Millisecond)
				err := p.lock(relock.WithLease(100 * time.Millisecond)).Lock(ctx)
				cancel()
				require.Error(t, err)
				assert.NotContains(t, err.Error(), "no answer", "%d ms away", far)
			}
		}
	})
}

// A waiter that is far from Redis keeps its place before newcomers when a claim lapses.
func TestFarWaitersKeepTheirOrderOverALapse(t *testing.T) {
	for _, far := range []time.Duration{1, 3, 4, 5, 10, 20} {
		t.Run(fmt.Sprint(far), func(t *testing.T) {
			alone(t, fair, func(t *testing.T, w *world) {
				holder, dies, away, near := w.process(), w.process(), w.process(), w.process()
				away.delay(far * time.Millisecond)
				held := holder.held()
				go func() { _ = dies.lock().Lock(background) }()
				time.Sleep(time.Millisecond)
				a := away.wait(0)
				time.Sleep(time.Second)
				dies.die(true)
				require.NoError(t, held.Unlock(background))
				time.Sleep(claim - time.Millisecond)
				var b []<-chan time.Time
				for range 30 {
					b = append(b, near.wait(time.Millisecond))
				}
				first := <-a
				for _, b := range b {
					require.False(t, (<-b).Before(first), "it was overtaken")
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// Several processes have leases that are shorter than their round trip, so that each grant is over
// before they know of it. They queue again each time, and others get the lock between them.
func TestWaitersWhoseLeaseIsTooShortHoldUpNobody(t *testing.T) {
	for _, typ := range []*lockType{&lockTypes[0], fair, writer, semaphore} {
		t.Run(typ.name, func(t *testing.T) {
			alone(t, typ, func(t *testing.T, w *world) {
				holder, near := w.process(), w.process()
				held := holder.held()
				ctx, cancel := context.WithCancel(background)
				for range 8 {
					p := w.process(relock.WithLease(60 * time.Millisecond))
					p.delay(35 * time.Millisecond)
					defer func(got <-chan error) { require.ErrorIs(t, <-got, context.Canceled) }(begin(ctx, p.lock()))
				}
				defer cancel()
				time.Sleep(10 * time.Second)
				require.NoError(t, held.Unlock(background))
				for range 10 {
					took := took(func() { require.NoError(t, near.held().Unlock(background)) })
					require.Less(t, took, 2*time.Second)
				}
			})
		})
	}
}

// A process that is far from Redis has a call whose lease is shorter than its round trip, and one
// whose lease is not. Others hammer the lock: the second call gets it nevertheless.
func TestCallBesideOneWhoseLeaseIsTooShort(t *testing.T) {
	for _, typ := range []*lockType{&lockTypes[0], fair, writer, semaphore} {
		t.Run(typ.name, func(t *testing.T) {
			alone(t, typ, func(t *testing.T, w *world) {
				far, near := w.process(), []*process{w.process(), w.process(), w.process()}
				held := near[0].held()
				far.delay(35 * time.Millisecond)
				ctx, cancel := context.WithCancel(background)
				short := begin(ctx, far.lock(relock.WithLease(60*time.Millisecond)))
				time.Sleep(time.Second)
				crowd := crowdFor(30*time.Second, 5*time.Millisecond)
				for _, p := range near {
					crowd.join(1, p, typ)
				}
				require.NoError(t, held.Unlock(background))
				require.Less(t, took(func() { require.NoError(t, <-lockAndUnlock(far.lock())) }), 10*time.Second)
				crowd.others()
				cancel()
				<-short
			})
		})
	}
}
