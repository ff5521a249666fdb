package virtual_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Processes die silently one after the other, while others come and try, the clock steps and Redisson comes:
// one has the lock at a time, and nobody waits for long beyond the claims that lapse.
func TestDyingCrowdWithStepsAndRedisson(t *testing.T) {
	for seed := range uint64(2) {
		for i := range exclusives {
			t.Run(fmt.Sprint(exclusives[i].name, " ", seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(seed, 1))
					w := newWorld(t, &exclusives[i])
					w.process()
					kind := []string{"lock", "fair"}[seed%2]
					if exclusives[i].name == "writer" {
						kind = "write"
					}
					end := time.Now().Add(20 * time.Second)
					var in, turns, tries atomic.Int64
					var longest time.Duration
					var mu sync.Mutex
					var wg sync.WaitGroup
					section := func() {
						assert.EqualValues(t, 1, in.Add(1))
						time.Sleep(20 * time.Millisecond)
						in.Add(-1)
						turns.Add(1)
					}
					for n := range 4 {
						p := w.process()
						p.delay(time.Duration(n) * 500 * time.Microsecond)
						for range 2 {
							wg.Go(func() {
								for l := p.lock(); time.Now().Before(end); {
									start := time.Now()
									if l.Lock(background) != nil {
										continue
									}
									mu.Lock()
									longest = max(longest, time.Since(start))
									mu.Unlock()
									section()
									_ = l.Unlock(background)
								}
							})
						}
					}
					far := w.redisson(kind, time.Millisecond)
					theirs := 0
					wg.Go(func() {
						for ; time.Now().Before(end); theirs++ {
							far.lock()
							section()
							far.unlock()
							time.Sleep(100 * time.Millisecond)
						}
					})
					tryer := w.process()
					wg.Go(func() {
						for l := tryer.lock(); time.Now().Before(end); time.Sleep(37 * time.Millisecond) {
							if ok, _ := l.TryLock(background); ok {
								tries.Add(1)
								section()
								_ = l.Unlock(background)
							}
						}
					})
					for n := range 2 {
						d := w.process()
						for range 3 {
							go func() { _ = d.lock().Lock(background) }()
						}
						time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond)
						d.die(n%2 == 0)
						time.Sleep(time.Duration(6000+r.IntN(3000)) * time.Millisecond)
						if seed == 1 {
							w.redis[0].StepClock(time.Duration(r.IntN(2000)-1000) * time.Millisecond / 2)
						}
					}
					wg.Wait()
					t.Log(turns.Load(), "turns,", theirs, "of Redisson,", tries.Load(), "tries, longest", longest)
					assert.Less(t, longest, 2*claim+2*time.Second)
					assert.Greater(t, theirs, 5)
				})
			})
		}
	}
}
