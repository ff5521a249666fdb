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
	sync.Mutex
	writer  *lease
	readers map[*lease]bool
	token   int64
}

// host is a table whose goroutines really block.
type host struct {
	*world
	*server
}

// try asks Redis once, unless w has been let in.
func (p *host) try(w *waiter) *hold {
	var st standing
	h, side := p.Answer(w), w.Lock.Side()
	if h == nil && side == read {
		h, st = p.Standing(w)
	}
	if h != nil || st.Refused {
		return h
	}
	p.Lock()
	l := newLease(p.server.token+1000, rand.IntN(10))
	switch {
	case p.writer != nil && (side == write || p.writer != st.Write) || side == write && len(p.readers) > 0:
		l = nil
	case side == write:
		p.writer, p.server.token = l, l.token
	default:
		p.readers[l] = true
	}
	p.Unlock()
	if l == nil {
		return nil
	}
	var used bool
	if side == read {
		h, l = p.GrantRead(w, l, true, p.now.Load()+1)
	} else if h, used = p.Grant(w, l, l.token); used {
		l = nil
	}
	p.release(l)
	return h
}

func (p *host) release(l *lease) {
	p.Lock()
	defer p.Unlock()
	delete(p.readers, l)
	if l != nil && p.writer == l {
		p.writer = nil
	}
}

// acquire acquires l for o, and returns the hold, or nil if ctx ended before or something must be
// unlocked first.
func (p *host) acquire(ctx context.Context, l *lock, o *owner, due bool) *hold {
	w := p.Waiter(l, o, !p.Open, 1)
	w.Due = due
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
	for ctx.Err() == nil && !l.MustUnlockFirst(w.Owner) {
		if h := p.try(w); h != nil {
			return h
		}
		select {
		case <-w.C:
		case <-ctx.Done():
		case <-time.After(10 * time.Microsecond):
		}
	}
	if h := p.Quit(w); h != nil {
		p.ended(p.Exit(l, h, due, errExpired))
	}
	return nil
}

func (p *host) ended(x exit) arbiter.Outcome {
	if x.Outcome == arbiter.Release || x.Outcome == arbiter.Expired {
		p.release(x.Lease)
		p.Released("a", x.Lease, nil, 0)
	}
	return x.Outcome
}

// Goroutines of several processes, some with an owner, many cancelled at a random moment, never
// have the lock together; and where leases are lost nobody waits for ever, and every unlock finds
// its hold.
func TestStress(t *testing.T) {
	for name, c := range map[string]struct{ open, rw, loses bool }{
		"mutex": {}, "mutex with losses": {loses: true},
		"fair": {open: true}, "fair with losses": {open: true, loses: true},
		"read-write": {rw: true}, "read-write with losses": {rw: true, loses: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := &server{readers: make(map[*lease]bool)}
			var inside, entered, lost atomic.Int64 // inside: readers + 10000 × writers
			var counter int                        // not atomic, so that the race detector looks too
			stop, cancel := context.WithTimeout(background, kit.Stress(t, 300*time.Millisecond))
			defer cancel()
			over := func() bool { return stop.Err() != nil && (lost.Load() > 0 || !c.loses) }
			var wg sync.WaitGroup
			for range 2 {
				p := &host{newWorld(), redis}
				p.Open = c.open
				t.Cleanup(func() { require.Zero(t, p.Len()) })
				sides, crowd := []*lock{p.lock(write), p.lock(read)}, new(owner)
				for range 6 {
					wg.Go(func() {
						o := newOwner()
						for !over() {
							side, one := write, int64(10000)
							if c.rw && rand.IntN(3) > 0 {
								side, one = read, 1
							}
							l, as, due := sides[side], []*owner{nil, crowd, o}[rand.IntN(3)], rand.IntN(2) == 0
							if as == crowd && side == write {
								as = nil
							}
							ctx, cancel := background, context.CancelFunc(func() {})
							if rand.IntN(3) == 0 {
								ctx, cancel = context.WithTimeout(background, rand.N(200*time.Microsecond))
							}
							h := p.acquire(ctx, l, as, due)
							cancel()
							if h == nil {
								continue
							}
							if !c.loses {
								if side == write {
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
							x := exit{}
							if due && as == o {
								x = p.ExitOwner(l, o, errExpired)
							} else {
								x = p.Exit(l, h, due, errExpired)
							}
							switch out := p.ended(x); out {
							case arbiter.NotHeld, arbiter.Expired:
								t.Errorf("unlock = %v", out)
							case arbiter.WasLost:
								lost.Add(1)
							default:
								entered.Add(1)
							}
						}
					})
				}
				wg.Go(func() {
					for c.loses && !over() {
						for _, l := range p.Leases("a") {
							if lost, _ := p.Lose("a", l, errLost); len(lost) > 0 {
								p.release(l)
							}
						}
						time.Sleep(50 * time.Microsecond)
					}
				})
			}
			wg.Wait()
			require.NotZero(t, entered.Load())
			require.Equal(t, c.loses, lost.Load() > 0)
			require.True(t, redis.writer == nil && len(redis.readers) == 0, "something stays in Redis")
		})
	}
}
