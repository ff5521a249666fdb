package arbiter_test

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// stress returns how long a stress test goes on.
func stress(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("RELOCK_STRESS")
	if text == "" {
		return 300 * time.Millisecond
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// crew is what the goroutines of one owner share.
type crew struct {
	o  *owner
	mu sync.Mutex // excludes them among each other: the lock does not
}

// Goroutines of several processes, some of them sharing an owner, many of them
// cancelled at a random moment, never hold the lock together. The counter is not
// atomic, so that the race detector looks too.
func TestStressExclusion(t *testing.T) {
	redis := new(server)
	var processes []*process
	for range 3 {
		processes = append(processes, newProcess(redis, 50*time.Microsecond))
	}
	var counter int
	var entered atomic.Int64
	var last int64 // token of the hold before
	stop, cancel := context.WithTimeout(background, stress(t))
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range processes {
		shared := p.Handle("a")
		crews := []*crew{{o: new(owner)}, {o: new(owner)}}
		for range 8 {
			wg.Go(func() {
				own := p.Handle("a")
				for stop.Err() == nil {
					via, c := &shared, &crew{}
					if rand.IntN(2) == 0 {
						via = &own
					}
					if rand.IntN(3) == 0 {
						c = crews[rand.IntN(len(crews))]
					}
					ctx, cancel := background, context.CancelFunc(func() {})
					if rand.IntN(3) == 0 {
						ctx, cancel = context.WithTimeout(background, time.Duration(rand.IntN(100))*time.Microsecond)
					}
					h := p.lock(ctx, via, c.o)
					cancel()
					if h == nil {
						continue
					}
					if c.o != nil && rand.IntN(2) == 0 {
						if p.lock(background, via, c.o) != h {
							t.Error("re-entry gave another hold")
						}
						p.unlock(via, c.o)
					}
					c.mu.Lock()
					before := counter
					if rand.IntN(8) == 0 {
						runtime.Gosched()
					}
					counter = before + 1
					if h.Token < last || c.o == nil && h.Token == last {
						t.Errorf("token %d after %d", h.Token, last)
					}
					last = h.Token
					c.mu.Unlock()
					entered.Add(1)
					if got := p.unlock(via, c.o); got == arbiter.NotHeld || got == arbiter.WasLost || got == arbiter.Expired {
						t.Errorf("unlock = %v", outcomes[got])
					}
				}
			})
		}
	}
	wg.Wait()
	if int64(counter) != entered.Load() {
		t.Errorf("counted %d of %d entries", counter, entered.Load())
	}
	for _, p := range processes {
		if p.Len() != 0 {
			t.Errorf("a table still knows %d names", p.Len())
		}
	}
	t.Logf("%d entries", entered.Load())
}

// Holds are lost and expire at random moments under goroutines that lock, cancel and
// unlock. Nobody may be left waiting, no unlock may be NotHeld, and the tables must be
// empty in the end.
func TestStressWithLosses(t *testing.T) {
	p := newProcess(new(server), 50*time.Microsecond)
	shared := p.Handle("a")
	stop, cancel := context.WithTimeout(background, stress(t))
	defer cancel()
	var wg sync.WaitGroup
	var lost, ended atomic.Int64
	owners := []*owner{new(owner), new(owner)}
	for range 8 {
		wg.Go(func() {
			for stop.Err() == nil {
				via, own := &shared, p.Handle("a")
				if rand.IntN(2) == 0 {
					via = &own
				}
				var o *owner
				if via == &own && rand.IntN(2) == 0 {
					// Through a shared handle an owner's unlock may have been counted
					// by an anonymous one.
					o = owners[rand.IntN(len(owners))]
				}
				ctx, cancel := context.WithTimeout(background, time.Duration(rand.IntN(300))*time.Microsecond)
				h := p.lock(ctx, via, o)
				cancel()
				if h == nil {
					continue
				}
				if rand.IntN(4) == 0 {
					runtime.Gosched()
				}
				switch p.unlock(via, o) {
				case arbiter.NotHeld:
					t.Error("unlock = NotHeld after a lock")
				case arbiter.WasLost:
					lost.Add(1)
				default:
					ended.Add(1)
				}
			}
		})
	}
	thief := make(chan struct{})
	go func() {
		defer close(thief)
		for stop.Err() == nil {
			if h := p.Lookup("a"); h != nil && len(p.Lose("a", h.Lease)) > 0 {
				p.redis.release(h.Lease)
			}
			time.Sleep(20 * time.Microsecond)
		}
	}()
	wg.Wait()
	<-thief
	if p.Len() != 0 {
		t.Errorf("the table still knows %d names", p.Len())
	}
	if lost.Load() == 0 || ended.Load() == 0 {
		t.Errorf("%d holds lost, %d ended; both should occur", lost.Load(), ended.Load())
	}
	t.Logf("%d holds lost, %d ended", lost.Load(), ended.Load())
}
