package virtual_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// A claim lapses, and the user has no right to relock_seen and relock_yield, as one set up for an older version:
// still one at a time has the lock.
func TestExclusionWithoutRightsToNewKeys(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		holder, dies := w.process(), w.process()
		ps := []*process{w.process(), w.process(), w.process()}
		memredis.Of(w.redis[0], holder.s[0]).Server().OnCommand(func(verb string, args []string) string {
			if len(args) > 0 && (strings.HasPrefix(args[0], "relock_yield") || strings.HasPrefix(args[0], "relock_seen")) && verb != "EXISTS" {
				return "NOPERM this user has no permissions to access one of the keys used as arguments"
			}
			return ""
		})
		held := holder.held()
		go func() { _ = dies.lock().Lock(background) }()
		time.Sleep(time.Millisecond)
		var in, most atomic.Int64
		var wg sync.WaitGroup
		for _, p := range ps {
			wg.Go(func() {
				l := p.lock()
				if !assert.NoError(t, l.Lock(background)) {
					return
				}
				for n := in.Add(1); n > most.Load(); n = in.Load() {
					most.Store(n)
				}
				t.Log("has the lock", w.fields())
				time.Sleep(100 * time.Millisecond)
				in.Add(-1)
				_ = l.Unlock(background)
			})
			time.Sleep(time.Millisecond)
		}
		dies.die(true)
		start := time.Now()
		require.NoError(t, held.Unlock(background))
		wg.Wait()
		t.Log(time.Since(start))
		require.EqualValues(t, 1, most.Load(), "holders at a time")
	})
}

// More live waiters than are told to look, behind a dead one: how long is the lock free, who is in order?
func TestManyLiveWaitersBehindADeadOne(t *testing.T) {
	for _, live := range []int{90, 150, 400} {
		for _, dead := range []int{1, 100} {
			t.Run(fmt.Sprint(live, " behind ", dead), func(t *testing.T) {
				alone(t, fair, func(t *testing.T, w *world) {
					holder, dies := w.process(), w.process()
					ps := []*process{w.process(), w.process()}
					held := holder.held()
					for range dead {
						go func() { _ = dies.lock().Lock(background) }()
						time.Sleep(time.Millisecond)
					}
					var mu sync.Mutex
					var order []int
					var gap time.Duration
					var last time.Time
					var wg sync.WaitGroup
					turn := func(l relock.Locker, n int) {
						if !assert.NoError(t, l.Lock(background)) {
							return
						}
						mu.Lock()
						if len(order) > 0 {
							gap = max(gap, time.Since(last))
						}
						order = append(order, n)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						last = time.Now()
						_ = l.Unlock(background)
					}
					for n := range live {
						wg.Go(func() { turn(ps[n%2].lock(), n) })
						time.Sleep(time.Millisecond)
					}
					dies.die(true)
					require.NoError(t, held.Unlock(background))
					time.Sleep(claim + 50*time.Millisecond)
					wg.Go(func() { turn(holder.lock(), live) }) // a newcomer
					wg.Wait()
					sorted := slices.IsSorted(order)
					t.Log("longest free", gap, "newcomer's turn", slices.Index(order, live), "of", live, "sorted", sorted)
					assert.Less(t, gap, 100*time.Millisecond)
					assert.True(t, sorted)
				})
			})
		}
	}
}

// One process whose goroutines want the lock all the time, and a client of RFairLock.
func TestRFairLockBesideOneBusyProcess(t *testing.T) {
	for _, kinds := range [][2]string{{"Mutex", "lock"}, {"Mutex", "fair"}, {"writer", "write"}} {
		for _, processes := range []int{1, 2} {
			t.Run(fmt.Sprint(kinds, processes), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					const section = 4 * time.Millisecond
					w := newWorld(t, typeNamed(kinds[0]))
					var ps []*process
					for range processes {
						ps = append(ps, w.process())
					}
					far := w.redisson(kinds[1], time.Millisecond)
					var wg sync.WaitGroup
					var ours atomic.Int64
					end := time.Now().Add(5 * time.Second)
					for _, p := range ps {
						for range 4 {
							wg.Go(func() { n, _ := busy(p.lock(), section, end); ours.Add(int64(n)) })
						}
					}
					theirs := 0
					for ; time.Now().Before(end); theirs++ {
						far.lock()
						time.Sleep(section)
						far.unlock()
					}
					wg.Wait()
					t.Log(theirs, ours.Load())
					require.Greater(t, theirs, 10)
				})
			})
		}
	}
}

// A client of Redisson listens and does not come, since it stands still: it costs one busy process little.
func TestFrozenRedissonCostsABusyProcessLittle(t *testing.T) {
	for _, kind := range []string{"Mutex", "writer"} {
		for _, processes := range []int{1, 2} {
			t.Run(fmt.Sprint(kind, processes), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					const section = 4 * time.Millisecond
					w := newWorld(t, typeNamed(kind))
					var ps []*process
					for range processes {
						ps = append(ps, w.process())
					}
					far := w.redisson("lock", time.Millisecond)
					channel := map[string]string{"Mutex": "redisson_lock__channel:{a}", "writer": "redisson_rwlock:{a}"}[kind]
					require.NoError(t, far.sub.Do(background, far.sub.B().Subscribe().Channel(channel).Build()).Error())
					var wg sync.WaitGroup
					var ours atomic.Int64
					const length = 10 * time.Second
					end := time.Now().Add(length)
					for _, p := range ps {
						for range 4 {
							wg.Go(func() { n, _ := busy(p.lock(), section, end); ours.Add(int64(n)) })
						}
					}
					wg.Wait()
					t.Log(ours.Load(), "of", int64(length/section))
					require.Greater(t, ours.Load(), int64(length/section)/2)
				})
			})
		}
	}
}

// The server's clock steps before a claim lapses, so that nothing tells who is silent: nobody waits for long, and one
// has the lock at a time.
func TestClockStepsBeforeAClaimLapses(t *testing.T) {
	for _, step := range []time.Duration{-500 * time.Millisecond, -3 * time.Second, -time.Hour, 500 * time.Millisecond, time.Hour} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			t.Parallel()
			for i := range exclusives {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, &exclusives[i])
					holder, dies := w.process(), w.process()
					ps := []*process{w.process(), w.process(), w.process()}
					held := holder.held()
					go func() { _ = dies.lock().Lock(background) }()
					time.Sleep(time.Millisecond)
					var in atomic.Int64
					var wg sync.WaitGroup
					start := time.Now()
					for _, p := range ps {
						wg.Go(func() {
							l := p.lock()
							if !assert.NoError(t, l.Lock(background)) {
								return
							}
							assert.EqualValues(t, 1, in.Add(1))
							time.Sleep(100 * time.Millisecond)
							in.Add(-1)
							_ = l.Unlock(background)
						})
						time.Sleep(time.Millisecond)
					}
					dies.die(true)
					require.NoError(t, held.Unlock(background))
					time.Sleep(claim - 100*time.Millisecond)
					w.redis[0].StepClock(step)
					w.do("DEL", "a") // a step back has the claim last longer
					wg.Wait()
					assert.Less(t, time.Since(start), claim+claim/2)
				})
			}
		})
	}
}
