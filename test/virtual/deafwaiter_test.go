package virtual_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// A waiter dies, or stands still, at any moment around the release that grants it the lock: it costs those behind it
// its grant timeout of 5 s, whatever its lease.
func TestWaiterThatDiesWhileItsPollIsUnderWay(t *testing.T) {
	for _, typ := range append(exclusives[:3:3], *semaphore) {
		for _, how := range []string{"killed", "frozen"} {
			t.Run(fmt.Sprint(typ.name, how), func(t *testing.T) {
				t.Parallel()
				worst, many := time.Duration(0), 0
				for k := 0; k < 60; k++ {
					serially(t, &typ, func(t *testing.T, w *world) {
						holder, dies, next := w.process(), w.process(), w.process()
						dies.delay(20 * time.Millisecond)
						held := holder.held()
						dies.wait(0, relock.WithLease(10*time.Minute))
						time.Sleep(100 * time.Millisecond)
						got := next.wait(0)
						time.Sleep(time.Second + time.Duration(k)*10*time.Millisecond)
						start := time.Now()
						require.NoError(t, held.Unlock(background)) // the grant is sent
						dies.die(how == "frozen")                   // before it arrives
						d := (<-got).Sub(start)
						worst = max(worst, d)
						if d > claim+claim/2 {
							many++
						}
						_ = dies.closeAll(time.Millisecond)
						time.Sleep(time.Second)
					})
				}
				t.Logf("worst %v; %d of 60 moments cost more than 7.5 s", worst, many)
				require.LessOrEqual(t, worst, claim+claim/2)
			})
		}
	}
}

func serially(t *testing.T, typ *lockType, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, typ)) })
}
