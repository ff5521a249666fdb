package arbiter_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// server is a Redis that knows one lock.
type server struct {
	mu      sync.Mutex // protects the following
	writer  *lease
	readers map[*lease]bool
	token   int64
}

// try grants the lock if it is free, to a reader also if its owner has the exclusive lease own.
func (s *server) try(side arbiter.Side, own *lease) *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer != nil && (side == write || s.writer != own) || side == write && len(s.readers) > 0 {
		return nil
	}
	s.token += 1000
	l := newLease(s.token, rand.IntN(10))
	if side == write {
		s.writer = l
	} else {
		s.readers[l] = true
	}
	return l
}

func (s *server) release(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, l)
	if s.writer == l {
		s.writer = nil
	}
}

// host is a table whose goroutines really block.
type host struct {
	*world
	redis *server
}

// lock locks through via for o, that of the handle if it is nil, and returns the hold, or nil if ctx ended
// before or something must be unlocked first.
func (p *host) lock(ctx context.Context, via *handle, o *owner) *hold {
	w := p.Waiter(via, ownerOf(via, o), !p.Open, 0)
	defer p.Free(w)
	switch p.Enter(w, true) {
	case arbiter.Entered, arbiter.Joined:
		return p.Answer(w)
	case arbiter.UnlockFirst, arbiter.Upgrade:
		return nil
	case arbiter.Queued:
		select {
		case <-w.C:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil && !via.MustUnlockFirst(w.Owner) {
		if h := p.ask(w); h != nil {
			return h
		}
		select {
		case <-w.C:
		case <-ctx.Done():
		case <-time.After(10 * time.Microsecond):
		}
	}
	if h := p.Quit(w); h != nil {
		p.ended(via, p.Return(via, h, errExpired))
	}
	return nil
}

// ask asks Redis once, unless w has been let in.
func (p *host) ask(w *waiter) *hold {
	var st standing
	h := p.Answer(w)
	if h == nil && w.Via.Side() == read {
		h, st = p.Standing(w)
	}
	if h != nil || st.Refused {
		return h
	}
	l := p.redis.try(w.Via.Side(), st.Write)
	if l == nil {
		return nil
	}
	if w.Via.Side() == write {
		h, used := p.Grant(w, l, l.token)
		if !used {
			p.redis.release(l)
		}
		return h
	}
	h, spare := p.GrantRead(w, l, true, p.now.Load()+1)
	if spare != nil {
		p.redis.release(spare)
	}
	return h
}

func (p *host) unlock(via *handle, o *owner) arbiter.Outcome {
	x := p.Exit(via, o, errExpired)
	p.ended(via, x)
	return x.Outcome
}

func (p *host) ended(via *handle, x exit) {
	if x.Outcome == arbiter.Release || x.Outcome == arbiter.Expired {
		p.redis.release(x.Lease)
		p.Released(via.Name(), x.Lease, nil, 0)
	}
}

// Goroutines of several processes, some with an owner, many cancelled at a random moment, never have
// the lock together; and where leases are lost nobody waits for ever, and every unlock finds its hold.
func TestStress(t *testing.T) {
	for name, c := range map[string]struct{ open, rw, loses bool }{
		"mutex": {}, "fair": {open: true}, "read-write": {rw: true},
		"mutex with losses": {loses: true}, "fair with losses": {open: true, loses: true}, "read-write with losses": {rw: true, loses: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := &server{readers: make(map[*lease]bool)}
			var inside atomic.Int64 // readers + 10000 × writers
			var entered, lost atomic.Int64
			var counter int // not atomic, so that the race detector looks too
			stop, cancel := context.WithTimeout(background, kit.Stress(t, 300*time.Millisecond))
			defer cancel()
			var wg sync.WaitGroup
			for range 2 {
				p := &host{newWorld(t), redis}
				p.Open = c.open
				t.Cleanup(func() { require.Zero(t, p.Len()) })
				shared := []*handle{p.handle(write), p.handle(read)}
				for range 6 {
					wg.Go(func() {
						own := []*handle{p.handle(write), p.handle(read)}
						o := new(owner)
						for stop.Err() == nil {
							side := write
							if c.rw && rand.IntN(3) > 0 {
								side = read
							}
							via, as := shared[side], (*owner)(nil)
							if rand.IntN(2) == 0 {
								via = own[side]
							}
							if rand.IntN(3) == 0 { // not through a handle whose last holder others unlock
								via, as = own[side], o
							}
							ctx, cancel := background, context.CancelFunc(func() {})
							if rand.IntN(3) == 0 {
								ctx, cancel = context.WithTimeout(background, time.Duration(rand.IntN(200))*time.Microsecond)
							}
							h := p.lock(ctx, via, as)
							cancel()
							if h == nil {
								continue
							}
							if !c.loses {
								one := int64(1)
								if side == write {
									one = 10000
									counter++
								}
								if n := inside.Add(one); n >= 10000 && n != 10000 {
									t.Errorf("%d inside", n)
								}
								inside.Add(-one)
							}
							if rand.IntN(4) == 0 {
								runtime.Gosched()
							}
							switch out := p.unlock(via, as); out {
							case arbiter.NotHeld, arbiter.Expired:
								t.Errorf("unlock = %v", outcomes[out])
							case arbiter.WasLost:
								lost.Add(1)
							default:
								entered.Add(1)
							}
						}
					})
				}
				if c.loses {
					wg.Go(func() {
						for stop.Err() == nil {
							for _, l := range p.Leases("a") {
								if len(p.Lose("a", l, errLost)) > 0 {
									redis.release(l)
								}
							}
							time.Sleep(50 * time.Microsecond)
						}
					})
				}
			}
			wg.Wait()
			require.NotZero(t, entered.Load())
			require.Equal(t, c.loses, lost.Load() > 0)
			require.True(t, redis.writer == nil && len(redis.readers) == 0, "something stays in Redis")
		})
	}
}
