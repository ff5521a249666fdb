package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/lockerr"
)

// Whether a session may ask Redis: not before its start has found out what kind of server that is.
// Until then calls fail, or wait, as they do while Redis does not answer.

// start is how far a session has come with its start.
type start struct {
	done atomic.Bool // it has started

	mu   sync.Mutex    // protects the following
	why  error         // an *Unstarted, or ErrClosed; nil: nothing has been found out
	news chan struct{} // closed when an attempt has ended; nil: nobody waits for that
}

// An Unstarted says why a session has not started: what its last attempt has found.
type Unstarted struct {
	why    error
	passes bool            // by itself; else somebody must act
	News   <-chan struct{} // closed when another attempt has ended
}

func (u *Unstarted) Error() string { return "the session has not started: " + u.why.Error() }

// Unwrap returns what was found.
func (u *Unstarted) Unwrap() error { return u.why }

// Started records that calls may ask Redis from now on.
func (c *Conn) Started() {
	s := &c.start
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done.Store(true)
	s.tell()
}

// Unstarted records what an attempt to start has found, and whether that may pass by itself. Of
// [lockerr.ErrClosed] calls get just that: there are no more attempts.
func (c *Conn) Unstarted(why error, passes bool) {
	s := &c.start
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell()
	if s.why = why; why != lockerr.ErrClosed {
		s.news = make(chan struct{})
		s.why = &Unstarted{why, passes, s.news}
	}
}

// tell tells those that wait. s.mu is locked.
func (s *start) tell() {
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// AwaitStart returns nil if the session has started, else why it has not. While that is not known
// it waits, until ctx ends at the latest.
func (c *Conn) AwaitStart(ctx context.Context) error {
	if c.start.done.Load() {
		return nil
	}
	return c.start.await(ctx)
}

func (s *start) await(ctx context.Context) error {
	began := time.Now()
	for {
		s.mu.Lock()
		why := s.why
		if s.news == nil {
			s.news = make(chan struct{})
		}
		news := s.news
		s.mu.Unlock()
		switch {
		case s.done.Load():
			return nil
		case why != nil:
			return why
		}
		select {
		case <-news:
		case <-ctx.Done():
			return &Unstarted{NoAnswer(time.Since(began)), true, news}
		}
	}
}
