package virtual_test

import (
	"context"
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
	"github.com/relock-go/relock/relocktest"
)

// A crowd takes and leaves locks all the time, until its end.
type crowd struct {
	section time.Duration
	end     time.Time
	wg      sync.WaitGroup
	had     []*atomic.Int64 // turns, of each process
}

func crowdFor(length, section time.Duration) *crowd {
	return &crowd{section: section, end: time.Now().Add(length)}
}

// join adds goroutines of a process.
func (c *crowd) join(goroutines int, p *process, typ *lockType, o ...relock.LockOption) {
	had := new(atomic.Int64)
	c.had = append(c.had, had)
	for range goroutines {
		c.wg.Go(func() {
			n, _ := c.turns(typ.make(p.s, o...))
			had.Add(int64(n))
		})
	}
}

// others waits for the end, and returns how many turns each process has had, and all of them.
func (c *crowd) others() (each []int, sum int) {
	c.wg.Wait()
	for _, n := range c.had {
		each = append(each, int(n.Load()))
		sum += int(n.Load())
	}
	return each, sum
}

// turns takes part here, and returns how often it had the lock and the longest time that it waited.
func (c *crowd) turns(l interface {
	Lock(context.Context) error
	Unlock(context.Context) error
}) (n int, longest time.Duration) {
	for ; time.Now().Before(c.end); n++ {
		longest = max(longest, took(func() { _ = l.Lock(background) }))
		time.Sleep(c.section)
		_ = l.Unlock(background)
	}
	return n, longest
}

// Processes whose goroutines want the lock all the time share it evenly, and one that has a single
// goroutine has a turn in each round.
func TestSaturatingProcessesShareTheLock(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		single, ps := w.process(), []*process{w.process(), w.process(), w.process(), w.process()}
		c := crowdFor(2*time.Second, time.Millisecond)
		for _, p := range ps {
			p.delay(oneWay)
			c.join(8, p, w.typ)
		}
		single.delay(oneWay)
		n, longest := c.turns(single.lock())
		counts, _ := c.others()
		t.Log(counts, n, longest)
		require.LessOrEqual(t, slices.Max(counts), 2*slices.Min(counts))
		require.Less(t, longest, 250*time.Millisecond)
	})
}

// Goroutines that read keep no writer out, and goroutines that write no reader, within a process and
// among processes, near and far.
func TestNeitherReadersNorWritersStarve(t *testing.T) {
	for _, sides := range [][2]*lockType{{reader, writer}, {writer, reader}} {
		for _, apart := range []bool{false, true} {
			for _, far := range []time.Duration{0, 50 * time.Millisecond} {
				t.Run(fmt.Sprint(sides[1].name, apart, far), func(t *testing.T) {
					alone(t, reader, func(t *testing.T, w *world) {
						ps := []*process{w.process(), w.process(), w.process()}
						if !apart {
							ps = []*process{ps[0], ps[0], ps[0]}
						}
						c := crowdFor(time.Second, 5*time.Millisecond)
						c.join(4, ps[0], sides[0])
						c.join(4, ps[1], sides[0])
						ps[2].delay(far)
						n, longest := c.turns(sides[1].make(ps[2].s))
						c.others()
						t.Log(n, longest)
						require.Greater(t, n, 2)
						require.Less(t, longest, time.Second)
					})
				})
			}
		}
	}
}

// A grant must last until the winner can answer, whatever the lease of the one who released it.
func TestFarWaiterHasTurnsBesideShortLeases(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		a, b, away := w.process(), w.process(), w.process()
		away.delay(40 * time.Millisecond)
		c := crowdFor(20*time.Second, 20*time.Millisecond)
		c.join(1, a, w.typ, relock.WithLease(60*time.Millisecond))
		c.join(1, b, w.typ, relock.WithLease(80*time.Millisecond))
		n, longest := c.turns(away.lock())
		each, sum := c.others()
		t.Log(each, n, longest)
		require.GreaterOrEqual(t, 10*n, (sum+n)/3, "a tenth of an even share")
	})
}

// The names a and {a} share a slot: a release of one granted the lock to a waiter of the other, and everybody waited
// 5 s for that grant to expire.
func TestSimilarNamesDoNotDelayEachOther(t *testing.T) {
	t.Parallel()
	type lockOf func(s *relock.Session, name string) relock.Locker
	mutex := func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) }
	fair := func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) }
	writer := func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) }
	reader := func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name).RLocker() }
	group := func(s *relock.Session, name string) relock.Locker {
		return relock.NewGroup(s.Mutex(name), s.FairMutex(name+"b"), s.RWMutex(name+"c"))
	}
	redlock := func(s *relock.Session, name string) relock.Locker {
		return relock.NewRedlock([]*relock.Session{s}, name)
	}
	for kinds, pair := range map[string][2]lockOf{ // the second excludes both
		"Mutex and FairMutex": {mutex, fair}, "FairMutex": {fair, fair}, "writer": {writer, writer},
		"reader and writer": {reader, writer}, "Group and Mutex": {group, mutex}, "Redlock": {redlock, redlock},
	} {
		t.Run(kinds, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				redis := relocktest.New(t)
				var wg sync.WaitGroup
				for process := range 2 { // in each two calls of each kind for each name
					s := redis.Session(relock.WithTenure(0)) // each unlock goes to the queue
					redis.Delay(s, time.Duration(1+process)*100*time.Microsecond)
					for i := range 8 {
						l := pair[i%2](s, []string{"a", "{a}"}[i/4])
						wg.Go(func() {
							for range 8 {
								ctx, cancel := context.WithTimeout(background, time.Second)
								defer cancel()
								if !assert.NoError(t, l.Lock(ctx)) {
									return
								}
								time.Sleep(time.Millisecond)
								assert.NoError(t, l.Unlock(background))
							}
						})
					}
				}
				wg.Wait()
			})
		})
	}
}
