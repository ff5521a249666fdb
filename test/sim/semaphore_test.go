package sim_test

import (
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/relocktest"
)

var semaphoreSeeds = flag.Int("sim.semaphores", 50, "worlds with a semaphore")

// A semaphoreWorld has some processes that use one semaphore while the network fails, and the server's clock steps
// back. Permits are not lost. Some processes may have one more.
type semaphoreWorld struct {
	t       testing.TB
	seed    uint64
	permits int

	mu      sync.Mutex
	in      map[int]bool // slots in use
	events  int64
	history []porcupine.Operation
}

// A slotStep takes a slot, or gives it back.
type slotStep struct {
	slot  int
	takes bool
}

// slotModel is a semaphore in a single process: each slot is one holder's at a time. The state is a bit for each.
var slotModel = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, _ any) (bool, any) {
		s, x := state.(uint64), input.(slotStep)
		bit := uint64(1) << x.slot
		if x.takes {
			return s&bit == 0, s | bit
		}
		return true, s &^ bit
	},
}

func (w *semaphoreWorld) clock() int64 {
	w.events++
	return w.events
}

// use is one section under a permit. It ends at once when the permit is lost.
func (w *semaphoreWorld) use(ctx context.Context, called int64, limit int, section time.Duration) {
	slot := relock.HoldOf(ctx).Slot()
	w.mu.Lock()
	switch {
	case slot < 0 || slot >= limit:
		w.t.Errorf("seed %d: slot %d of %d", w.seed, slot, limit)
	case w.in[slot] && ctx.Err() == nil:
		w.t.Errorf("seed %d: two have slot %d", w.seed, slot)
	}
	lost := ctx.Err() != nil // before anybody could use it
	w.in[slot] = true
	n := len(w.history)
	w.history = append(w.history, porcupine.Operation{ClientId: n, Input: slotStep{slot, true}, Call: called, Return: w.clock()})
	w.mu.Unlock()
	if !lost {
		select {
		case <-ctx.Done():
		case <-time.After(section):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.in, slot)
	w.history = append(w.history, porcupine.Operation{ClientId: n + 1, Input: slotStep{slot, false}, Call: w.clock(), Return: math.MaxInt64})
}

// Whatever the network does: never more than n, and each in a slot of its own.
func TestSemaphoreInWorldsWithFaults(t *testing.T) {
	t.Parallel()
	first := rand.Uint64() >> 1
	for seed := first; seed < first+uint64(*semaphoreSeeds); seed++ {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			redis := relocktest.New(t)
			w := &semaphoreWorld{t: t, seed: seed, permits: 1 + r.IntN(4), in: make(map[int]bool)}
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			var all sync.WaitGroup
			var sessions []*relock.Session
			for range 2 + r.IntN(3) {
				s := redis.Session(relock.WithLease(time.Duration(1+r.IntN(5)) * time.Second))
				sessions = append(sessions, s)
				redis.Delay(s, time.Duration(r.IntN(10))*time.Millisecond)
				limit := w.permits + r.IntN(2)
				sem := s.Semaphore("sem", limit)
				for range 1 + r.IntN(4) {
					rnd := rand.New(rand.NewPCG(r.Uint64(), 1))
					all.Go(func() {
						for range 6 {
							time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
							w.mu.Lock()
							called := w.clock()
							w.mu.Unlock()
							do := relock.Do
							if rnd.IntN(4) == 0 {
								do = func(ctx context.Context, l relock.Locker, f func(context.Context) error) error {
									_, err := relock.TryDo(ctx, l, f)
									return err
								}
							}
							within, cancel := context.WithTimeout(ctx, time.Duration(1+rnd.IntN(20))*time.Second)
							_ = do(within, sem, func(ctx context.Context) error {
								w.use(ctx, called, limit, time.Duration(rnd.IntN(2000))*time.Millisecond)
								return nil
							})
							cancel()
						}
					})
				}
			}
			for range 1 + r.IntN(6) {
				time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
				s := sessions[r.IntN(len(sessions))]
				n := memredis.Of(redis, s)
				switch r.IntN(8) {
				case 0:
					heal := redis.Partition(s)
					time.AfterFunc(time.Duration(r.IntN(8000))*time.Millisecond, heal)
				case 1:
					redis.Disconnect(s)
				case 2:
					redis.DropReplies(s, 1+r.IntN(3))
				case 3:
					redis.Restart(true)
				case 4:
					time.AfterFunc(time.Duration(r.IntN(8000))*time.Millisecond, n.Cut(memredis.Direction(r.IntN(2))))
				case 5:
					n.LoseMessage("granted ")
				case 6:
					n.Server().Evict("relock_queue:{sem}")
				case 7:
					redis.StepClock(-time.Duration(r.IntN(9000)) * time.Millisecond)
				}
			}
			all.Wait()
			if len(w.history) < 120 && porcupine.CheckOperationsTimeout(slotModel, w.history, 5*time.Second) == porcupine.Illegal {
				t.Errorf("seed %d: Porcupine finds no order", seed)
			}
			time.Sleep(90 * time.Second) // what was not released has expired, though the clock was put back
			state, err := redis.Session().Inspect(context.Background(), "sem")
			require.NoError(t, err)
			require.Equal(t, relock.State{}, state, "seed %d: something is left", seed)
		})
		if t.Failed() {
			return
		}
	}
	t.Log("seeds from", first)
}
