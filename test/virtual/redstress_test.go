package virtual_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// Leases are short, and every 100 ms other processes reach other servers: holds are lost, repaired and passed on all
// the time. Nobody gets the lock while another is certain of it, and whoever gets it has the largest token.
func TestTokensOfARedlockGrowWhilePartitionsChange(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " servers"), func(t *testing.T) {
			inSkew(t, n, func(t *testing.T, w *world) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				var mu sync.Mutex // protects the following
				var last int64
				var holder *relock.Hold
				var certain time.Time // until when it is
				holds, losses := 0, 0
				stop := time.Now().Add(30 * time.Second)
				var ps []*process
				var wg sync.WaitGroup
				for range 3 {
					p := w.process(relock.WithLease(time.Second), relock.WithTenure(20*ms))
					ps = append(ps, p)
					p.networks(func(n *memredis.Process) { n.Delay(time.Duration(1+r.IntN(3000)) * time.Microsecond) })
					for range 2 {
						pause := time.Duration(1+r.IntN(100)) * ms
						wg.Go(func() {
							for time.Now().Before(stop) {
								l, token := p.redlock()
								mu.Lock()
								until, held := l.Deadline()
								if holder != nil && time.Now().Before(certain) && holder.Err() == nil {
									t.Errorf("two are certain of it, with the tokens %d and %d", last, token)
								}
								if token <= last {
									t.Errorf("token %d after %d", token, last)
								}
								last, holder, certain = token, l, until
								holds++
								mu.Unlock()
								if time.Sleep(pause); rand.IntN(10) == 0 {
									time.Sleep(1500 * ms) // it may be lost
								}
								mu.Lock()
								if holder == l {
									holder = nil
								}
								mu.Unlock()
								if l.Unlock(background) != nil || !held {
									mu.Lock()
									losses++
									mu.Unlock()
								}
							}
						})
					}
				}
				var heals []func()
				for time.Now().Before(stop) {
					var next []func()
					for k, p := range ps {
						cut := time.Now().Unix()/2%4 == int64(k) // one of them from all, for longer than a lease
						for i := range w.redis {
							if cut || r.IntN(3) == 0 {
								p.on(func(n *memredis.Process) { next = append(next, n.Cut()) }, i)
							}
						}
					}
					for _, heal := range heals { // what is cut again has not been whole
						heal()
					}
					heals = next
					time.Sleep(100 * ms)
				}
				for _, heal := range heals {
					heal()
				}
				wg.Wait()
				require.Greater(t, holds, 10)
				t.Logf("%d servers: %d holds, %d lost", n, holds, losses)
				time.Sleep(10 * time.Second)
				require.True(t, w.free())
			})
		})
	}
}

// Hundreds of callers of a process wait for a Redlock while its servers refuse connections, or load
// their data: one of them asks, less and less often, and there is no rush when they are back.
func TestCallersOfARedlockCostTheServersLittleInAnOutage(t *testing.T) {
	for _, answer := range []string{"", "LOADING Redis is loading the dataset in memory"} {
		t.Run("answer "+answer, func(t *testing.T) {
			alone(t, redlock, func(t *testing.T, w *world) {
				holder, p := w.process(), w.process()
				held := holder.held()
				ctx, cancel := context.WithCancel(background)
				callers := kit.Async(func() error {
					return kit.Together(300, func(int) error {
						l := p.lock()
						if l.Lock(ctx) == nil {
							return l.Unlock(background)
						}
						return nil
					})
				})
				time.Sleep(time.Second)
				var scripts atomic.Int64
				refusal := answer
				holder.onScripts(func() string { scripts.Add(1); return refusal })
				perSecond := func(d time.Duration) int64 {
					scripts.Store(0)
					time.Sleep(d)
					return scripts.Load() / int64(d/time.Second)
				}
				if answer == "" {
					p.refuse()
				}
				require.Less(t, perSecond(10*time.Second), int64(50))
				p.heal()
				refusal = ""
				require.Less(t, perSecond(time.Second), int64(300))
				require.Less(t, perSecond(10*time.Second), int64(100))
				cancel()
				require.NoError(t, <-callers)
				require.NoError(t, held.Unlock(background))
			})
		})
	}
}
