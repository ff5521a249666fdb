package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock/internal/redistest"
)

// lockName is the lock of every run: each has a server of its own.
const lockName = "the-lock"

// Processes that wait, and goroutines of each.
const (
	waiterProcs   = 3
	waitersOfProc = 2
)

// section is how long a waiter works when it has the lock.
const section = 500 * time.Millisecond

// soon bounds what takes no time unless something is broken.
const soon = time.Minute

// A stage is one run: a server, a proxy for the first process, and processes that lock.
type stage struct {
	ctx    context.Context // ends the run
	peer   *peer
	fault  *fault
	lease  time.Duration
	asleep time.Duration
	rng    *rand.Rand

	srv    *redistest.Server
	client *redis.Client
	proxy  *redistest.Proxy
	procs  []*proc
	rec    *record
	watch  *watch

	struck    int64 // when the fault happened
	since     int64 // when the next can have the lock, but for the lease; 0: when struck
	mustKnow  int64 // when the holder must have been told; 0: it need not be
	sleeping  int   // waiters, long after the lock was free
	abandoned bool  // the run took too long
}

func openStage(
	ctx context.Context, dir string, p *peer, f *fault, set *settings, seed uint64,
) (*stage, error) {
	srv, err := redistest.Launch(dir)
	if err != nil {
		return nil, err
	}
	proxy, err := redistest.OpenProxy(srv.Addr())
	if err != nil {
		srv.Close()
		return nil, err
	}
	s := &stage{
		ctx: ctx, peer: p, fault: f, lease: set.lease, asleep: set.asleep, srv: srv, proxy: proxy,
		rng:    rand.New(rand.NewPCG(seed, 0)),
		client: redis.NewClient(&redis.Options{Addr: srv.Addr(), PoolSize: 2}),
		rec:    newRecord(),
	}
	s.watch = startWatch(p, s.client, lockName)
	return s, nil
}

// close ends every process and reads what it still said.
func (s *stage) close() {
	for _, p := range s.procs {
		p.kill()
	}
	s.watch.end()
	_ = s.client.Close() // nothing is under way
	s.proxy.Close()
	s.srv.Close()
}

// start starts a process, of which the first is connected by way of the proxy.
func (s *stage) start() (*proc, error) {
	addr := s.srv.Addr()
	if len(s.procs) == 0 {
		addr = s.proxy.Addr()
	}
	n := len(s.procs)
	p, err := startProc(n, job{s.peer.id, addr, s.lease, lockName}, s.rec.hear)
	if err != nil {
		return nil, err
	}
	s.procs = append(s.procs, p)
	begun := false
	err = s.await("a worker to begin", soon, func() (known bool) {
		s.rec.mu.Lock()
		defer s.rec.mu.Unlock()
		begun, known = s.rec.ready[n]
		return known
	})
	if err == nil && !begun {
		err = errTooBusy
	}
	return p, err
}

// holder starts a process that has the lock until it is told to end, or of a loss.
func (s *stage) holder() (*proc, error) {
	p, err := s.start()
	if err != nil {
		return nil, err
	}
	if err := p.tell(order{Lock: 1}); err != nil {
		return nil, err
	}
	return p, s.await("the holder to have the lock", soon, func() bool { return s.rec.first(0) != 0 })
}

// waiters starts processes that wait for the lock.
func (s *stage) waiters() (all []*proc, err error) {
	for range waiterProcs {
		p, err := s.start()
		if err != nil {
			return nil, err
		}
		all = append(all, p)
		before := s.rec.count(called)
		if err := p.tell(order{Lock: waitersOfProc, Section: section}); err != nil {
			return nil, err
		}
		if err := s.await("waiters to wait", soon, func() bool {
			return s.rec.count(called) == before+waitersOfProc
		}); err != nil {
			return nil, err
		}
	}
	return all, s.sleep(200 * time.Millisecond) // a call takes a moment until it waits
}

func called(_ caller, c *call) bool { return c.called != 0 }

// begin starts the holder and the waiters, and returns at a random moment of half a lease.
func (s *stage) begin() (holder *proc, waiters []*proc, err error) {
	if holder, err = s.holder(); err != nil {
		return nil, nil, err
	}
	if waiters, err = s.waiters(); err != nil {
		return nil, nil, err
	}
	return holder, waiters, s.sleep(s.upTo(s.lease / 2))
}

func (s *stage) upTo(d time.Duration) time.Duration { return time.Duration(s.rng.Int64N(int64(d))) }

func (s *stage) sleep(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// kill kills a process.
func (s *stage) kill(p *proc) {
	s.rec.kill(p.n)
	p.kill()
}

// call returns a copy of what came of a process's first goroutine.
func (s *stage) call(p *proc) call {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	if c := s.rec.calls[caller{p.n, 0}]; c != nil {
		return *c
	}
	return call{}
}

// settle returns when no waiter is left. It gives waiters up that sleep although the lock is free,
// and, long after the last lease must have ended, all.
func (s *stage) settle() {
	for s.rec.waiting() > 0 && s.sleep(lookEvery) == nil {
		if s.watch.free() >= s.asleep {
			s.sleeping = s.rec.waiting()
			return
		}
		if s.after(s.struck) > 3*s.lease+2*s.asleep+5*time.Second {
			s.abandoned = true
			return
		}
	}
	// The last section ends.
	_ = s.await("", soon, func() bool { return s.rec.count(working) == 0 })
}

// working reports whether a waiter has the lock.
func working(who caller, c *call) bool {
	return who.proc > 0 && c.entered != 0 && c.unlocked == 0
}

// after returns how long ago a time was.
func (s *stage) after(at int64) time.Duration { return time.Duration(monotonic() - at) }

// await returns when a condition is true, or an error if that takes too long.
func (s *stage) await(what string, within time.Duration, is func() bool) (err error) {
	for start := monotonic(); err == nil && !is(); err = s.sleep(5 * time.Millisecond) {
		if s.after(start) > within {
			return fmt.Errorf("waited %v for %s", within, what)
		}
	}
	return err
}

// run makes the run and returns what went wrong.
func (s *stage) run() (verdict, error) {
	err := s.fault.run(s)
	if err == nil {
		err = s.ctx.Err()
	}
	if err != nil {
		s.rec.mu.Lock()
		defer s.rec.mu.Unlock()
		return verdict{}, fmt.Errorf("%w; workers said %q", err, s.rec.problems)
	}
	return s.judge()
}
