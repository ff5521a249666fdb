package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// Impatient callers come and go in front of a patient one of the same process, with leases of all lengths; its place is
// before those of other processes that came later.
func TestPatientCallersKeepThePlaceOfImpatientOnes(t *testing.T) {
	for _, typ := range []*lockType{&lockTypes[0], writer} {
		t.Run(typ.name, func(t *testing.T) {
			alone(t, typ, func(t *testing.T, w *world) {
				holder, p, other := w.process(), w.process(), w.process()
				p.delay(3 * time.Millisecond)
				held := holder.held()
				leases := []time.Duration{60 * time.Millisecond, lease, time.Second, 10 * time.Minute}
				for i := range 30 { // each gives up 100 ms after the one before
					ctx, cancel := context.WithTimeout(background, time.Duration(100+100*i)*time.Millisecond)
					defer cancel()
					l := p.lock(relock.WithLease(leases[i%4]))
					go func() { _ = l.Lock(ctx) }()
					time.Sleep(time.Microsecond)
				}
				patient := p.wait(50*time.Millisecond, relock.WithLease(time.Minute))
				time.Sleep(10 * time.Millisecond)
				late := other.wait(0)
				time.Sleep(5 * time.Second)
				require.NoError(t, held.Unlock(background))
				a, b := <-patient, <-late
				require.True(t, a.Before(b))
				time.Sleep(20 * time.Second)
				require.True(t, w.free())
				require.False(t, w.has(w.queue()))
			})
		})
	}
}

// Impatient calls of a process overlap all the time, so that one always queues: the place does not
// stay that of the first, and a patient process has its turns.
func TestImpatientCallsDoNotHandOnAnOldPlace(t *testing.T) {
	for _, typ := range []*lockType{&lockTypes[0], writer} {
		t.Run(typ.name, func(t *testing.T) {
			alone(t, typ, func(t *testing.T, w *world) {
				far, near := w.process(), w.process()
				far.delay(35 * time.Millisecond)
				crowd := crowdFor(20*time.Second, time.Millisecond)
				for range 3 {
					crowd.wg.Go(func() {
						for time.Now().Before(crowd.end) {
							ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
							if l := far.lock(); l.Lock(ctx) == nil {
								_ = l.Unlock(background)
							}
							cancel()
						}
					})
				}
				_, longest := crowd.turns(near.lock())
				crowd.others()
				require.Less(t, longest, 5*time.Second)
			})
		})
	}
}
