package virtual_test

import (
	"fmt"
	"slices"
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

// What waiters cost the others that are dead, or stand still.

// claim is the longest that a release grants the lock to the next in the queue, until that has renewed it.
const claim = 5 * time.Second

// exclusives are the types of locks in which each waits for the one before.
var exclusives = lockTypes[:3]

var fair, writer, redlock = &lockTypes[1], &lockTypes[2], &lockTypes[6]

// eachExclusive runs f in a bubble for each of them.
func eachExclusive(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for i := range exclusives {
		t.Run(exclusives[i].name, func(t *testing.T) { alone(t, &exclusives[i], f) })
	}
}

// die ends a process as its death does, noticed by the servers or not.
func (p *process) die(silently bool) {
	p.networks(func(n *memredis.Process) { n.Vanish(silently) })
}

// wait has a goroutine wait for the lock of the process, and returns once it is in line. The channel tells
// when it had the lock, which it has for a section.
func (p *process) wait(section time.Duration, o ...relock.LockOption) <-chan time.Time {
	had := make(chan time.Time, 1)
	l := p.lock(o...)
	go func() {
		if l.Lock(background) == nil {
			had <- time.Now()
			time.Sleep(section)
			_ = l.Unlock(background)
		}
	}()
	time.Sleep(time.Millisecond)
	return had
}

// What the dead winner has is its own claim: no longer than the lease that it asked for.
func TestDeadWinnerBlocksForItsOwnLease(t *testing.T) {
	const short = time.Second
	for what, o := range map[string]relock.LockOption{
		"renewed": relock.WithLease(short), "fixed": relock.WithFixedLease(short), "bounded": relock.WithMaxHold(short),
	} {
		for when, waits := range map[string]bool{"dies waiting": true, "dies holding": false} {
			t.Run(what+" "+when, func(t *testing.T) {
				eachExclusive(t, func(t *testing.T, w *world) {
					holder, dies, next := w.process(), w.process(), w.process()
					held := holder.held()
					won := begin(background, dies.lock(o))
					time.Sleep(time.Millisecond)
					got := next.wait(0)
					time.Sleep(7 * time.Second)
					if waits {
						dies.die(true)
					}
					start := time.Now()
					require.NoError(t, held.Unlock(background))
					if !waits {
						require.NoError(t, <-won)
						dies.die(true)
					}
					require.LessOrEqual(t, (<-got).Sub(start), 2*short)
				})
			})
		}
	}
}

// Processes stand still, or are cut off while their connections stay, with any number of waiting goroutines: the others
// wait for one grant timeout of each process, and those that come later no longer. Of a read-write lock on which both
// sides wait it is one more, for the phase of readers. When the processes go on, each has its turn.
func TestFrozenWaitersCostOneGrantTimeoutOfEachProcess(t *testing.T) {
	const most = claim + claim/3 + 100*time.Millisecond
	for what, c := range map[string]struct {
		processes, waiters int // that stand still
		among              int // waiters of others, among them
		leases             []time.Duration
		most               time.Duration
	}{
		"one waiter":            {1, 1, 0, []time.Duration{lease}, most},
		"ten":                   {1, 10, 0, []time.Duration{lease}, most},
		"ten among others":      {1, 10, 10, []time.Duration{lease}, most},
		"a hundred":             {1, 100, 0, []time.Duration{lease}, most},
		"many among others":     {1, 100, 20, []time.Duration{lease}, most},
		"a host with processes": {5, 10, 0, []time.Duration{lease}, 4*claim + most},
		"a shorter lease":       {1, 2, 0, []time.Duration{3 * time.Second, lease}, most},
		"short leases":          {1, 4, 0, []time.Duration{time.Second, time.Second, time.Second, lease}, most},
	} {
		t.Run(what, func(t *testing.T) {
			eachExclusive(t, func(t *testing.T, w *world) {
				holder, a, b := w.process(), w.process(), w.process()
				held, typ := holder.held(), w.typ
				var frozen []*process
				for range c.processes {
					frozen = append(frozen, w.process())
				}
				var stand, others []<-chan time.Time
				for i := range c.waiters {
					if typ == writer && i%2 == 1 {
						w.typ = reader // both sides wait
					}
					stand = append(stand, frozen[i%c.processes].wait(0, relock.WithLease(c.leases[i%len(c.leases)])))
					w.typ = typ
					if i < c.among {
						others = append(others, []*process{a, b}[i%2].wait(time.Millisecond))
					}
				}
				others = append(others, a.wait(time.Millisecond), b.wait(time.Millisecond))
				time.Sleep(time.Second)
				for _, p := range frozen {
					p.partition()
				}
				cost := c.most
				if typ == writer && c.waiters > 1 {
					cost += claim
				}
				start := time.Now()
				require.NoError(t, held.Unlock(background))
				for _, had := range others {
					assert.LessOrEqual(t, (<-had).Sub(start), cost)
				}
				for range 3 {
					come := time.Now()
					assert.LessOrEqual(t, (<-a.wait(0)).Sub(come), most)
				}
				assert.LessOrEqual(t, time.Since(start), cost+claim)
				for _, had := range stand {
					assert.Empty(t, had)
				}
				for _, p := range frozen {
					p.heal()
				}
				for _, had := range stand {
					assert.LessOrEqual(t, (<-had).Sub(start), time.Minute)
				}
				time.Sleep(2 * claim)
				require.True(t, w.free())
			})
		})
	}
}

// A process that was killed leaves one place or hundreds. How many commands a release costs, those of scripts
// too, does not depend on it after the first few.
func TestPlacesOfADeadProcessCostNothing(t *testing.T) {
	const turns, few = 60, 10
	eachExclusive(t, func(t *testing.T, w *world) {
		cost := make(map[int]int64)
		for _, n := range []int{1, 600} {
			holder, dead, live := w.process(), w.process(), []*process{w.process(), w.process()}
			held := holder.held()
			for range n {
				dead.wait(0)
			}
			dead.die(false)
			_ = dead.closeAll(time.Millisecond) // which nobody hears
			var had, commands, before atomic.Int64
			memredis.Of(w.redis[0], holder.s[0]).Server().OnCommand(func(string, []string) string {
				commands.Add(1)
				return ""
			})
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for l := live[i%2].lock(relock.WithFixedLease(lease)); had.Load() < turns; { // which is not passed on
						_ = l.Lock(background)
						if had.Add(1) == few {
							before.Store(commands.Load())
						}
						time.Sleep(time.Millisecond)
						_ = l.Unlock(background)
					}
				})
			}
			synctest.Wait()
			start := time.Now()
			require.NoError(t, held.Unlock(background))
			wg.Wait()
			assert.Less(t, time.Since(start), claim, "nobody is waited for whom Redis knows to be gone")
			cost[n] = (commands.Load() - before.Load()) / (had.Load() - few)
			time.Sleep(4 * claim) // the queue is forgotten
			require.True(t, w.free())
		}
		t.Log("commands for each turn:", cost)
		require.LessOrEqual(t, cost[600], cost[1]+3)
	})
}

// More waiters than are told to look live behind dead ones: once the claim has lapsed the lock is free for
// moments only, and they have it in their order, before a newcomer.
func TestManyWaitersBehindTheDeadKeepTheirOrder(t *testing.T) {
	for _, c := range []struct{ live, dead int }{{90, 1}, {150, 100}, {400, 1}, {400, 100}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			alone(t, fair, func(t *testing.T, w *world) {
				holder, dies, ps := w.process(), w.process(), []*process{w.process(), w.process()}
				held := holder.held()
				for range c.dead {
					dies.wait(0)
				}
				var line []<-chan time.Time
				for i := range c.live {
					line = append(line, ps[i%2].wait(time.Millisecond))
				}
				dies.die(true)
				require.NoError(t, held.Unlock(background))
				time.Sleep(claim + 50*time.Millisecond)
				line = append(line, holder.wait(0))
				for last := <-line[0]; len(line) > 1; line = line[1:] {
					at := <-line[1]
					require.Greater(t, at, last)
					require.Less(t, at.Sub(last), 100*time.Millisecond)
					last = at
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// Before the claim of a dead winner lapses the server's clock steps. One at a time has the lock, and soon.
func TestClaimThatLapsesUnnoticedMakesOneHolder(t *testing.T) {
	for _, step := range []time.Duration{
		-500 * time.Millisecond, -3 * time.Second, -time.Hour, 500 * time.Millisecond, time.Hour,
	} {
		t.Run(step.String(), func(t *testing.T) {
			eachExclusive(t, func(t *testing.T, w *world) {
				holder, dies, ps := w.process(), w.process(), []*process{w.process(), w.process(), w.process()}
				held := holder.held()
				dies.wait(0)
				const section = 100 * time.Millisecond
				var turns []<-chan time.Time
				for _, p := range ps {
					turns = append(turns, p.wait(section))
				}
				dies.die(true)
				start := time.Now()
				require.NoError(t, held.Unlock(background))
				time.Sleep(claim - section)
				w.redis[0].StepClock(step)
				w.do("DEL", "a") // a step back has the claim last longer
				var at []time.Time
				for _, had := range turns {
					at = append(at, <-had)
				}
				time.Sleep(time.Second)
				slices.SortFunc(at, time.Time.Compare)
				require.GreaterOrEqual(t, at[1].Sub(at[0]), section)
				require.GreaterOrEqual(t, at[2].Sub(at[1]), section)
				require.Less(t, at[2].Sub(start), claim+claim/2)
			})
		})
	}
}
