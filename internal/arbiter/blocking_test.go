package arbiter_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

var background = context.Background()

// Goroutines that really block get the lock in the order in which they asked for it,
// whether it is passed on or comes from Redis each time.
func TestGoroutinesGetTheLockInFIFOOrder(t *testing.T) {
	for _, tenure := range []time.Duration{0, 5 * time.Millisecond, time.Hour} {
		t.Run(fmt.Sprint("tenure=", tenure), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(new(server), tenure)
				v := p.Handle("a")
				var wg sync.WaitGroup
				var order []int // guarded by the lock
				p.lock(background, &v, nil)
				for i := range 20 {
					wg.Go(func() {
						h := p.lock(background, &v, nil)
						order = append(order, i)
						if h.Passed && tenure == 0 {
							t.Error("a hold was passed on without a tenure")
						}
						time.Sleep(time.Millisecond)
						p.unlock(&v, nil)
					})
					synctest.Wait() // it waits now
				}
				time.Sleep(time.Minute)
				if len(order) != 0 {
					t.Fatal("a goroutine came in while the lock was held")
				}
				p.unlock(&v, nil)
				wg.Wait()
				if len(order) != 20 || !slices.IsSorted(order) {
					t.Errorf("order %v", order)
				}
				if p.Len() != 0 {
					t.Errorf("the table still knows %d names", p.Len())
				}
			})
		})
	}
}

// A process with many busy goroutines keeps another one waiting for one tenure and
// one hold, not longer.
func TestTenureBoundsHowLongAProcessKeepsTheLock(t *testing.T) {
	const (
		tenure = 10 * time.Millisecond
		work   = 3 * time.Millisecond
	)
	synctest.Test(t, func(t *testing.T) {
		redis := new(server)
		greedy, modest := newProcess(redis, tenure), newProcess(redis, tenure)
		ctx, cancel := context.WithCancel(background)
		var wg sync.WaitGroup
		passed := 0 // guarded by the lock
		v := greedy.Handle("a")
		for range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if h := greedy.lock(ctx, &v, nil); h != nil {
						if h.Passed {
							passed++
						}
						time.Sleep(work)
						greedy.unlock(&v, nil)
					}
				}
			})
		}
		synctest.Wait()
		u := modest.Handle("a")
		var longest time.Duration
		for range 50 {
			start := time.Now()
			modest.lock(background, &u, nil)
			longest = max(longest, time.Since(start))
			time.Sleep(work)
			modest.unlock(&u, nil)
		}
		cancel()
		wg.Wait()
		if longest > tenure+work {
			t.Errorf("the other process waited %v", longest)
		}
		if passed == 0 {
			t.Error("nothing was passed on")
		}
		if n := greedy.Len() + modest.Len(); n != 0 {
			t.Errorf("the tables still know %d names", n)
		}
	})
}

// Calls that give up at every moment around their grant leave the lock to the others,
// and free at the end.
func TestCancelledCallsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(new(server), 4*time.Millisecond)
		v := p.Handle("a")
		var wg sync.WaitGroup
		got, gaveUp := 0, 0
		var mu sync.Mutex // protects them
		for i := range 200 {
			wg.Go(func() {
				// Ends at the very instant of a hand-off, again and again.
				ctx, cancel := context.WithTimeout(background, time.Duration(i/2)*time.Millisecond)
				defer cancel()
				h := p.lock(ctx, &v, nil)
				mu.Lock()
				if h == nil {
					gaveUp++
				} else {
					got++
				}
				mu.Unlock()
				if h != nil {
					time.Sleep(time.Millisecond)
					p.unlock(&v, nil)
				}
			})
		}
		wg.Wait()
		if got == 0 || gaveUp == 0 {
			t.Errorf("%d calls got the lock, %d gave up; both should occur", got, gaveUp)
		}
		if p.Len() != 0 {
			t.Errorf("the table still knows %d names", p.Len())
		}
		if p.redis.held != nil {
			t.Error("the lock is still held in Redis")
		}
	})
}

// A waiter blocked on the unlock of a lost hold stays so for any length of time, and
// goes on at that unlock.
func TestBlockedByALostHoldUntilItsUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(new(server), time.Hour)
		v := p.Handle("a")
		h := p.lock(background, &v, nil)
		p.redis.release(h.Lease)
		p.Lose("a", h.Lease)
		var mine *arbiter.Hold[*grant]
		done := make(chan struct{})
		go func() {
			defer close(done)
			mine = p.lock(background, &v, nil)
		}()
		time.Sleep(24 * time.Hour)
		if p.Waiting("a", arbiter.Write) != 1 {
			t.Fatal("the call does not wait")
		}
		if got := p.unlock(&v, nil); got != arbiter.WasLost {
			t.Fatalf("the late unlock = %v, want WasLost", outcomes[got])
		}
		<-done
		if mine.State() != arbiter.Live {
			t.Fatal("the late unlock ended the new hold")
		}
		p.unlock(&v, nil)
		if p.Len() != 0 {
			t.Errorf("the table still knows %d names", p.Len())
		}
	})
}
