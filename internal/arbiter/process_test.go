package arbiter_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// server is a Redis that knows one lock and serves its askers strictly in order of
// arrival.
type server struct {
	mu    sync.Mutex
	held  *grant
	queue []*asker
	token int64 // last one given
}

// asker waits at the server.
type asker struct {
	now func() int64
	got chan *grant
}

// grant is one acquisition from the server.
type grant struct {
	since, until int64
	token, top   int64
}

// acquire waits for the lock until ctx ends.
func (s *server) acquire(ctx context.Context, now func() int64) *grant {
	a := &asker{now, make(chan *grant, 1)}
	s.mu.Lock()
	s.queue = append(s.queue, a)
	s.serveLocked()
	s.mu.Unlock()
	select {
	case g := <-a.got:
		return g
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.queue = slices.DeleteFunc(s.queue, func(q *asker) bool { return q == a })
	s.mu.Unlock()
	select {
	case g := <-a.got: // in the same moment
		s.release(g)
	default:
	}
	return nil
}

// release frees the lock if this acquisition still has it.
func (s *server) release(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == g {
		s.held = nil
		s.serveLocked()
	}
}

func (s *server) serveLocked() {
	if s.held != nil || len(s.queue) == 0 {
		return
	}
	a := s.queue[0]
	s.queue = s.queue[1:]
	s.token += 1024
	s.held = &grant{since: a.now(), until: never, token: s.token, top: s.token + 1023}
	a.got <- s.held
}

// process is a table whose goroutines really block, as Mutex.Lock does.
type process struct {
	*arbiter.Table[*grant]
	redis *server
	start time.Time
}

func newProcess(r *server, tenure time.Duration) *process {
	p := &process{redis: r, start: time.Now()}
	p.Table = arbiter.NewTable(arbiter.Rules[*grant]{
		Now:     p.clock,
		Certain: func(g *grant, now int64) bool { return now < g.until },
		Pass: func(g *grant, _, now int64) (int64, bool) {
			if now-g.since >= int64(tenure) || g.token == g.top {
				return 0, false
			}
			g.token++
			return g.token, true
		},
	})
	return p
}

func (p *process) clock() int64 { return int64(time.Since(p.start)) }

// lock locks through via and returns the hold, or nil if ctx ended before.
func (p *process) lock(ctx context.Context, via *arbiter.Handle[*grant], o *owner) *arbiter.Hold[*grant] {
	w := p.Waiter(via, o, true)
	defer p.Free(w)
	switch p.Enter(w, arbiter.Write, true) {
	case arbiter.Entered:
		return via.Latest()
	case arbiter.UnlockFirst:
		return nil
	case arbiter.Queued:
		select {
		case <-w.C:
			if h, _ := p.Answer(w); h != nil {
				return h
			}
		case <-ctx.Done():
			if h := p.Quit(w); h != nil {
				ended, out, _ := p.Return(via, h)
				p.ended(via, ended, out)
			}
			return nil
		}
	}
	g := p.redis.acquire(ctx, p.clock)
	if g == nil {
		p.Quit(w)
		return nil
	}
	h, _ := p.Grant(w, g, g.token)
	return h
}

func (p *process) unlock(via *arbiter.Handle[*grant], o *owner) arbiter.Outcome {
	h, outcome, _ := p.Exit(via, o, arbiter.Write)
	p.ended(via, h, outcome)
	return outcome
}

func (p *process) ended(via *arbiter.Handle[*grant], h *arbiter.Hold[*grant], outcome arbiter.Outcome) {
	if outcome == arbiter.Release {
		p.redis.release(h.Lease)
		p.Released(via.Name(), h.Lease)
	}
}
