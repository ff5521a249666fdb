package virtual_test

import (
	"fmt"
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

// What waiters cost the others that are dead, deaf or far.

// exclusives are the types of locks in which each waits for the one before.
var exclusives = lockTypes[:3]

// eachExclusive runs f in a bubble for each of them.
func eachExclusive(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for i := range exclusives {
		t.Run(exclusives[i].name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, &exclusives[i])) })
		})
	}
}

// wait has a goroutine wait for the lock of the process, and returns once it is in line. The channel tells
// when it had the lock, which it has for a section.
func (p *process) wait(section time.Duration) <-chan time.Time {
	had := make(chan time.Time, 1)
	l := p.lock()
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
		for when, early := range map[string]bool{"dies waiting": true, "dies holding": false} {
			t.Run(what+" "+when, func(t *testing.T) {
				eachExclusive(t, func(t *testing.T, w *world) {
					holder, dies, next := w.process(), w.process(), w.process()
					held := holder.held()
					won := begin(background, dies.lock(o))
					time.Sleep(time.Millisecond)
					got := next.wait(0)
					time.Sleep(7 * time.Second)
					if early {
						dies.die(true)
					}
					start := time.Now()
					require.NoError(t, held.Unlock(background))
					if !early {
						require.NoError(t, <-won)
						dies.die(true)
					}
					require.LessOrEqual(t, (<-got).Sub(start), 2*short)
				})
			})
		}
	}
}

// A grant must last until the winner can answer, whatever the lease of the one who released it.
func TestFarWaiterHasTurnsBesideShortLeases(t *testing.T) {
	const section, far = 20 * time.Millisecond, 40 * time.Millisecond
	eachExclusive(t, func(t *testing.T, w *world) {
		near := []*process{w.process(), w.process()}
		away := w.process()
		away.delay(far)
		turns := make([]int, len(near))
		end := time.Now().Add(20 * time.Second)
		var wg sync.WaitGroup
		for i, p := range near {
			wg.Go(func() {
				turns[i], _ = busy(p.lock(relock.WithLease(time.Duration(60+20*i)*time.Millisecond)), section, end)
			})
		}
		n, longest := busy(away.lock(relock.WithLease(lease)), section, end)
		wg.Wait()
		t.Log(turns, n, longest)
		require.GreaterOrEqual(t, 10*n, (turns[0]+turns[1]+n)/3, "a tenth of an even share")
	})
}

// A process stands still, or is cut off while its connections stay, with any number of waiting goroutines: the
// others wait for one claim in all. When it goes on, each of its waiters has its turn.
func TestFrozenWaitersCostOneClaimTogether(t *testing.T) {
	for _, n := range []int{1, 10, 100} {
		for _, mixed := range []bool{false, true} {
			t.Run(fmt.Sprint(n, map[bool]string{true: " among others", false: " before others"}[mixed]), func(t *testing.T) {
				eachExclusive(t, func(t *testing.T, w *world) {
					holder, frozen, a, b := w.process(), w.process(), w.process(), w.process()
					held := holder.held()
					var stand, others []<-chan time.Time
					for i := range n {
						stand = append(stand, frozen.wait(0))
						if mixed && i < 20 {
							others = append(others, []*process{a, b}[i%2].wait(time.Millisecond))
						}
					}
					others = append(others, a.wait(time.Millisecond), b.wait(time.Millisecond))
					time.Sleep(time.Second)
					frozen.partition()
					start := time.Now()
					require.NoError(t, held.Unlock(background))
					for _, had := range others {
						assert.LessOrEqual(t, (<-had).Sub(start), claim+claim/3+100*time.Millisecond)
					}
					for range 3 { // and those who come later wait no longer
						come := time.Now()
						assert.LessOrEqual(t, (<-a.wait(0)).Sub(come), claim+claim/3+100*time.Millisecond)
					}
					assert.LessOrEqual(t, time.Since(start), 2*claim)
					for _, had := range stand {
						assert.Empty(t, had)
					}
					frozen.heal()
					for _, had := range stand {
						assert.LessOrEqual(t, time.Since(<-had), time.Minute)
					}
					assert.LessOrEqual(t, time.Since(start), time.Minute)
					time.Sleep(2 * claim)
					require.True(t, w.free())
				})
			})
		}
	}
}

// A process that was killed leaves one place or hundreds. How many commands a release costs, those of scripts
// too, does not depend on it after the first few.
func TestPlacesOfADeadProcessCostNothing(t *testing.T) {
	const turns, few = 60, 10
	eachExclusive(t, func(t *testing.T, w *world) {
		cost := make(map[int]int64)
		for _, n := range []int{1, 600} {
			holder, dead := w.process(), w.process()
			live := []*process{w.process(), w.process()}
			held := holder.held()
			for range n {
				go func() { _ = dead.lock().Lock(background) }()
			}
			time.Sleep(time.Second)
			dead.die(false)
			_ = dead.closeAll(time.Millisecond) // which nobody hears
			var had, commands, before atomic.Int64
			memredis.Of(w.redis[0], holder.s[0]).Server().OnCommand(func(string, []string) string {
				commands.Add(1)
				return ""
			})
			var wg sync.WaitGroup
			for _, p := range live {
				for range 2 {
					wg.Go(func() {
						for l := p.lock(relock.WithFixedLease(lease)); had.Load() < turns; { // which is not passed on
							_ = l.Lock(background)
							if had.Add(1) == few {
								before.Store(commands.Load())
							}
							time.Sleep(time.Millisecond)
							_ = l.Unlock(background)
						}
					})
				}
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

// A process hears nothing, since Redis refuses its subscription, but its commands work. It has turns beside
// processes that hand the lock over without a pause.
func TestWaiterThatCannotSubscribeHasTurns(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		deaf := w.process()
		memredis.Of(w.redis[0], deaf.s[0]).Server().OnCommand(func(verb string, args []string) string {
			if verb == "SUBSCRIBE" && strings.Contains(strings.Join(args, " "), deaf.s[0].ID()) {
				return "ERR max number of clients reached"
			}
			return ""
		})
		deaf.networks((*memredis.Process).Break)
		time.Sleep(time.Second)
		const section, length = 20 * time.Millisecond, 30 * time.Second
		end := time.Now().Add(length)
		var crowd atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			p := w.process()
			for range 4 {
				wg.Go(func() {
					n, _ := busy(p.lock(), section, end)
					crowd.Add(int64(n))
				})
			}
		}
		n, longest := busy(deaf.lock(), section, end)
		wg.Wait()
		t.Log(crowd.Load(), n, longest)
		require.Greater(t, crowd.Load(), int64(length/section/3), "the others wait 100 ms at most for each of its turns")
		require.GreaterOrEqual(t, n, 3, "turns")
		require.Less(t, longest, 3*claim)
	})
}

// In a process that stands still readers and writers wait: they cost one claim together, too.
func TestFrozenReadersAndWritersCostOneClaimTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writer := typeNamed("writer")
		w := newWorld(t, writer)
		holder, frozen, a, b := w.process(), w.process(), w.process(), w.process()
		held := holder.held()
		first := a.wait(time.Millisecond)
		w.typ = reader
		frozen.wait(0)
		w.typ = writer
		frozen.wait(0)
		others := []<-chan time.Time{b.wait(time.Millisecond), first}
		time.Sleep(time.Second)
		frozen.partition()
		start := time.Now()
		require.NoError(t, held.Unlock(background))
		for _, had := range others {
			require.LessOrEqual(t, (<-had).Sub(start), claim+claim/3)
		}
		frozen.heal()
		time.Sleep(lease)
	})
}

// A claim of less than 4 s lapses while its session still counts as seen, so the next place of a frozen process is granted
// the lock as well: for 5 s more at most.
func TestFrozenWaitersWithLeasesOfSeveralLengthsCostTwoClaims(t *testing.T) {
	for _, leases := range [][]time.Duration{
		{3 * time.Second, lease}, {time.Second, time.Second, time.Second, lease},
	} {
		t.Run(fmt.Sprint(leases), func(t *testing.T) {
			alone(t, fair, func(t *testing.T, w *world) {
				holder, frozen, a := w.process(), w.process(), w.process()
				held := holder.held()
				for _, d := range leases {
					l := frozen.lock(relock.WithLease(d))
					go func() {
						if l.Lock(background) == nil {
							_ = l.Unlock(background)
						}
					}()
					time.Sleep(time.Millisecond)
				}
				got := a.wait(0)
				time.Sleep(time.Second)
				frozen.partition()
				start := time.Now()
				require.NoError(t, held.Unlock(background))
				assert.LessOrEqual(t, (<-got).Sub(start), 4*time.Second+claim+100*time.Millisecond)
				frozen.heal()
				time.Sleep(lease)
			})
		})
	}
}
