package virtual_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The first waiter of a semaphore stands still, and its queue expires 4 s later. The others keep their order of arrival,
// and have their turns as soon as a permit is free, or after one grant timeout.
func TestFrozenFirstWaiterOfASemaphore(t *testing.T) {
	inversions, late, n := 0, 0, 0
	for after := 3500 * time.Millisecond; after < 7*time.Second; after += 50 * time.Millisecond {
		serially(t, semaphore, func(t *testing.T, w *world) {
			holder, frozen, ps := w.process(), w.process(), []*process{w.process(), w.process(), w.process(), w.process()}
			held := holder.held()
			frozen.wait(0)
			var had []<-chan time.Time
			for _, p := range ps {
				had = append(had, p.wait(20*time.Millisecond))
			}
			heal := frozen.partition()
			time.Sleep(after)
			start := time.Now()
			require.NoError(t, held.Unlock(background))
			var at []time.Time
			for _, h := range had {
				at = append(at, <-h)
			}
			n++
			for i := 1; i < len(at); i++ {
				if at[i].Before(at[i-1]) {
					inversions++
					if inversions < 4 {
						t.Log("released", after, "after the freeze: turns at", fmt.Sprint(at[0].Sub(start), at[1].Sub(start), at[2].Sub(start), at[3].Sub(start)))
					}
					break
				}
			}
			if at[3].Sub(start) > claim+claim/3+200*time.Millisecond {
				late++
			}
			heal()
			time.Sleep(20 * time.Second)
		})
	}
	t.Logf("%d of %d runs out of order, %d late", inversions, n, late)
	assert.Zero(t, inversions)
	assert.Zero(t, late)
}
