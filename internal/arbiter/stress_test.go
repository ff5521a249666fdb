package arbiter_test

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

// server is a Redis that knows one lock, and serves in order of arrival.
type server struct {
	mu      sync.Mutex // protects the following
	writer  *lease
	readers map[*lease]bool
	queue   []*asker
	token   int64
}

type asker struct {
	side arbiter.Side
	own  *lease // the exclusive lease of its owner
	got  chan *lease
}

// acquire waits for the lock until ctx ends.
func (s *server) acquire(ctx context.Context, side arbiter.Side, own *lease) *lease {
	a := &asker{side, own, make(chan *lease, 1)}
	s.mu.Lock()
	s.queue = append(s.queue, a)
	s.serveLocked()
	s.mu.Unlock()
	select {
	case l := <-a.got:
		return l
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.queue = slices.DeleteFunc(s.queue, func(q *asker) bool { return q == a })
	s.mu.Unlock()
	select {
	case l := <-a.got: // in the same moment
		s.release(l)
	default:
	}
	return nil
}

func (s *server) release(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, l)
	if s.writer == l {
		s.writer = nil
	}
	s.serveLocked()
}

func (s *server) serveLocked() {
	s.queue = slices.DeleteFunc(s.queue, func(a *asker) bool {
		switch {
		case s.writer != nil && (a.side == write || s.writer != a.own), a.side == write && len(s.readers) > 0:
			return false
		}
		s.token += 1000
		l := newLease(s.token, rand.IntN(10))
		if a.side == write {
			s.writer = l
		} else {
			s.readers[l] = true
		}
		a.got <- l
		return true
	})
}

// host is a table whose goroutines really block.
type host struct {
	*world
	redis *server
}

// lock locks through via for o, that of the handle if it is nil, and returns the hold, or nil if ctx ended
// before or something must be unlocked first.
func (p *host) lock(ctx context.Context, via *handle, o *owner) *hold {
	for {
		if h, again := p.once(ctx, via, o); !again {
			return h
		}
	}
}

func (p *host) once(ctx context.Context, via *handle, o *owner) (h *hold, again bool) {
	c := &call{waiter: p.Waiter(via, ownerOf(via, o), !p.Open, 0), w: p.world}
	defer p.Free(c.waiter)
	switch c.verdict = p.Enter(c.waiter, true); c.verdict {
	case arbiter.Entered, arbiter.Joined:
		return p.Answer(c.waiter), false
	case arbiter.UnlockFirst, arbiter.Upgrade:
		return nil, false
	case arbiter.Queued:
		select {
		case <-c.C:
			if h = p.Answer(c.waiter); h != nil {
				return h, false
			}
		case <-ctx.Done():
			return p.quit(c), false
		}
	}
	for over := false; !over; {
		h, over = p.ask(ctx, c)
	}
	return h, h == nil && ctx.Err() == nil
}

// quit ends a call, and gives back what it got.
func (p *host) quit(c *call) *hold {
	if h := p.Quit(c.waiter); h != nil {
		p.ended(c.Via, p.Return(c.Via, h, errExpired))
	}
	return nil
}

func (p *host) ask(ctx context.Context, c *call) (h *hold, over bool) {
	var st standing
	if c.Via.Side() == read {
		if h, st = p.Standing(c.waiter); h != nil {
			return h, true
		}
	}
	if st.Refused {
		return p.quit(c), true
	}
	again, cancel := context.WithCancel(ctx)
	defer cancel()
	l := make(chan *lease, 1)
	go func() { l <- p.redis.acquire(again, c.Via.Side(), st.Write) }()
	var got *lease
	select {
	case <-c.C: // let in, or to ask again
		cancel()
		got = <-l
	case got = <-l:
	}
	if h = p.Answer(c.waiter); h != nil || got == nil {
		if got != nil {
			p.redis.release(got)
		}
		if ctx.Err() != nil {
			return p.quit(c), true
		}
		return h, h != nil
	}
	if c.Via.Side() == read {
		h, spare := p.GrantRead(c.waiter, got, true, p.now.Load()+1)
		if spare != nil {
			p.redis.release(spare)
		}
		return h, h != nil
	}
	h, used := p.Grant(c.waiter, got, got.token)
	if !used {
		p.redis.release(got)
		if h == nil && c.Via.MustUnlockFirst(c.Owner) {
			return p.quit(c), true
		}
	}
	return h, h != nil
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
			stop, cancel := context.WithTimeout(background, stress(t))
			defer cancel()
			var wg sync.WaitGroup
			for range 2 {
				p := &host{newWorld(t, c.open), redis}
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
							if rand.IntN(3) == 0 {
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

// stress returns how long a stress test goes on.
func stress(t *testing.T) time.Duration {
	text := os.Getenv("RELOCK_STRESS")
	if text == "" {
		return 300 * time.Millisecond
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}
