package local_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/local"
)

// redis knows who of a process has one lock.
type redis struct {
	sync.Mutex
	writer  *local.Lease
	readers map[*local.Lease]bool
}

// grant returns a lease if the lock is free.
func (r *redis) grant(reads bool) *local.Lease {
	r.Lock()
	defer r.Unlock()
	if r.writer != nil || !reads && len(r.readers) > 0 {
		return nil
	}
	l := &local.Lease{Takes: int64(time.Hour), Token: 1, Top: 100}
	l.Deadline.Store(local.Never)
	if reads {
		r.readers[l] = true
	} else {
		r.writer = l
	}
	return l
}

func (r *redis) release(l *local.Lease) {
	r.Lock()
	defer r.Unlock()
	delete(r.readers, l)
	if r.writer == l {
		r.writer = nil
	}
}

// Goroutines lock, unlock, try and give up at random moments. The race detector looks at the mutexes of the table,
// which the exploration does not; nobody starves, and nothing stays behind.
func TestGoroutinesTakeTurns(t *testing.T) {
	table, r := local.NewTable(int64(time.Millisecond)), &redis{readers: make(map[*local.Lease]bool)}
	start, crowd := time.Now(), new(local.Crowd)
	now := func() int64 { return int64(time.Since(start)) }
	var inside, entered atomic.Int64 // inside: readers + 10000 × writers
	counter := 0                     // not atomic, so that the race detector looks too
	unlock := func(h *local.Hold) {
		if _, last := h.Leave(false); !last {
			return
		}
		switch s := table.Unlock("a", h, true, true, now()); s.Do {
		case local.Release:
			r.release(s.Lease)
			table.Released("a", s.Lease, now())
		case local.Keep:
			if rand.IntN(2) == 0 {
				if s := table.Dropped("a", s.Lease, now()); s.Do == local.Release {
					r.release(s.Lease)
					table.Released("a", s.Lease, now())
				}
			}
		}
	}
	// lock returns nil if the call gives up, or does not wait.
	lock := func(c *local.Call, patience time.Duration) *local.Hold {
		over := time.After(patience)
		for s := table.Lock(c, now()); ; {
			switch s.Do {
			case local.Enter:
				return s.Hold
			case local.Refuse:
				return nil
			case local.Ask:
				if l := r.grant(c.Reads); l == nil {
					table.Refused(c, now())
				} else if c.Reads {
					s, spare := table.GrantedRead(c, l, true, now()+int64(time.Millisecond), now())
					if spare != nil {
						r.release(spare)
					}
					return s.Hold
				} else {
					return table.Granted(c, l, now())
				}
				if c.Try {
					return nil
				}
				time.Sleep(10 * time.Microsecond)
			case local.Release:
				r.release(s.Lease)
				table.Released("a", s.Lease, now())
				s.Do = local.Wait
			case local.Wait:
				select {
				case <-c.C:
					s = table.Next(c)
				case <-over:
					return nil
				}
			default:
				panic(errors.New("an unknown step"))
			}
			select {
			case <-over:
				return nil
			default:
			}
		}
	}
	end := time.Now().Add(kit.Stress(t, 300*time.Millisecond))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for time.Now().Before(end) {
				c := table.NewCall()
				c.Name, c.Length, c.Reads, c.Try, c.Keep = "a", int64(time.Hour), rand.IntN(3) > 0, rand.IntN(4) == 0, int64(rand.IntN(2))
				if c.Reads && rand.IntN(2) == 0 {
					c.Crowd = crowd
				}
				if c.Reads {
					c.Keep = 0
				}
				reads, patience := c.Reads, time.Hour
				if rand.IntN(3) == 0 {
					patience = rand.N(200 * time.Microsecond)
				}
				h := lock(c, patience)
				if late := table.Left(c, now()); h == nil && late != nil {
					unlock(late)
				}
				table.Free(c)
				if h == nil {
					continue
				}
				one := int64(1)
				if !reads {
					one = 10000
					counter++
				}
				if n := inside.Add(one); n >= 10000 && n != 10000 {
					t.Errorf("%d inside", n)
				}
				runtime.Gosched()
				inside.Add(-one)
				entered.Add(1)
				unlock(h)
			}
		})
	}
	all.Wait()
	require.NotZero(t, entered.Load())
	if l := table.Kept("a"); l != nil {
		table.Dropped("a", l, now())
		r.release(l)
		table.Released("a", l, now())
	}
	require.Zero(t, table.Len())
	require.True(t, r.writer == nil && len(r.readers) == 0, "something stays in Redis")
}
