package virtual_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// lastTold returns what the observer was told last of the number of leases that are kept.
func (k *keepTold) lastTold() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.events) == 0 {
		return 0
	}
	return k.events[len(k.events)-1].Leases
}

// An Unlock that keeps the lock, while another goroutine of the process takes it over and ends it without keeping
// it. In the end nothing is kept, and the observer must say so (it is told once a second).
func TestKeptCountWhenTakenOverAtOnce(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		told := new(keepTold)
		p := w.process(relock.WithObserver(told))
		const names = 50
		for round := range 6 {
			for i := range names {
				name := fmt.Sprint("n", i)
				l, m := p.s[0].Mutex(name, keeps), p.s[0].Mutex(name)
				require.NoError(t, l.Lock(background))
				var all sync.WaitGroup
				all.Go(func() {
					for ok := false; !ok; runtime.Gosched() {
						var err error
						ok, err = m.TryLock(background)
						require.NoError(t, err)
					}
				})
				for range i {
					runtime.Gosched()
				}
				all.Go(func() { require.NoError(t, l.Unlock(background)) })
				all.Wait()
				require.NoError(t, m.Unlock(background))
			}
			time.Sleep(3 * time.Second)
			for i := range names {
				require.False(t, w.has(fmt.Sprint("n", i)))
			}
			require.Zero(t, told.lastTold(), "round %d: nothing is kept", round)
		}
	})
}
