package relock

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/session"
)

// A Session is a process's part in the locks of one Redis deployment: it renews leases, listens for
// messages, and makes the lock values. One per process and deployment is enough. It must not be
// copied, and is safe for concurrent use.
type Session struct {
	_ noCopy
	e *session.Session
}

// NewSession starts a session on a client, which the caller closes after the session: of a single
// server, of Sentinel, or of a cluster. It checks that the server is a primary, has every command
// that locks need, and permits its use, and says what is missing. It waits while the server fails
// over, loads its data or is busy. ctx bounds that, not the life of the session. With
// [WithBackgroundStart] it does all that in the background. Sessions that share a client exclude each
// other as those of different processes do.
//
// What the client was told cannot be seen from here. Some of its options decide how soon locks go
// on after a failover or a connection that has gone silent, above all
// Sentinel.TopologyRefreshInterval and ConnWriteTimeout: docs/operating.md has them all, with what
// happens without each.
func NewSession(ctx context.Context, client rueidis.Client, opts ...SessionOption) (*Session, error) {
	if isNil(client) {
		return nil, errors.New("relock: NewSession: the client is nil; pass what rueidis.NewClient returned")
	}
	c, err := sessionConfigOf(opts)
	if err != nil {
		return nil, lockerr.New("NewSession", "", err)
	}
	s := new(Session)
	c.Scripts = scripts
	s.e = session.New(client, c)
	if err := s.e.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// ID returns the session's identity, a part of every hold id.
func (s *Session) ID() string { return s.e.ID }

// Done returns a channel that is closed when Close is called, and when [Session.Shutdown] has
// waited.
func (s *Session) Done() <-chan struct{} { return s.e.Done() }

// Close ends the session: waiting calls return ErrClosed, every hold is lost and released in Redis,
// goroutines and subscriptions end. It blocks until that is done or ctx ends; an ended ctx still
// gives Redis 100 ms. What it has not released then, or after 5 s without an answer, expires with
// its lease, and its error names it.
//
// Nothing of the session is left when Close returns, except that when Redis hangs a call may be
// inside rueidis until the client's timeouts. Close may be called more than once; the client stays
// open.
func (s *Session) Close(ctx context.Context) error { return s.e.Close(ctx) }

// Shutdown ends the session without taking a lock from anybody: it waits until every hold has
// ended, by its Unlock or Handoff, or by loss, and then does what Close does. Meanwhile nothing new
// is granted: Lock, TryLock, Acquire and Adopt return [ErrClosed], also calls that wait already,
// and what the session only keeps ([WithKeep]) is released. An owner that holds a lock
// ([Session.NewContext]) still enters it again, and leases are renewed as before.
//
// If ctx ends first, Shutdown closes the session at once: what is still held is lost, with
// [ErrLost] and ErrClosed, and released as by Close with that ctx. Then it returns the error of
// ctx. A Close meanwhile does the same without ctx's error; a second Shutdown waits as well. Holds
// that end only when they are told to, such as a leader's, must be told by the program.
func (s *Session) Shutdown(ctx context.Context) error { return s.e.Shutdown(ctx) }

// NewContext returns a context with a new owner in it, for a unit of work such as a request.
// Goroutines that share it do not exclude each other: a call under it acts for that owner, for
// locks of any session, and enters again what the owner holds. The session travels with it: see
// [FromContext].
func (s *Session) NewContext(ctx context.Context) context.Context {
	return local.WithOwner(ctx, local.NewOwner(s))
}

// FromContext returns the session that made the owner in ctx, if there is one, for code that has
// only a context.
func FromContext(ctx context.Context) (*Session, bool) {
	if o := local.OwnerOf(ctx); o != nil {
		s, ok := o.Minter.(*Session)
		return s, ok
	}
	return nil, false
}
