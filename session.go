package relock

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/session"
)

// A Session is a process's part in the locks of one Redis deployment; one per process and
// deployment is enough. It must not be copied, and is safe for concurrent use.
type Session struct {
	_ noCopy
	e *session.Session
}

// NewSession starts a session on a client of a single server, Sentinel, or a cluster. Close the
// client after the session. Sessions on one client exclude each other like those of different
// processes.
//
// NewSession checks that the server is a primary, has every command that locks need, and permits
// it, and reports what is missing. It waits while the server fails over, loads its data or is busy.
// ctx bounds that, not the session. [WithBackgroundStart] does this in the background. The client's
// options decide how soon locks work again after a failover or a silent connection: see
// docs/operating.md.
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

// Done returns a channel that is closed by Close, or when [Session.Shutdown] has waited.
func (s *Session) Done() <-chan struct{} { return s.e.Done() }

// Close ends the session: waiting calls return [ErrClosed], every hold is lost and released in
// Redis, goroutines and subscriptions end. It blocks until that is done or ctx ends; an ended ctx
// still gives Redis 100 ms. A hold that is not released then, or after 5 s without an answer,
// expires with its lease, and Close's error names it.
//
// If Redis hangs, a call may stay inside rueidis until the client's timeouts. Close may be called
// again. The client stays open.
func (s *Session) Close(ctx context.Context) error { return s.e.Close(ctx) }

// Shutdown waits until every hold has ended, by Unlock, Handoff or loss, and then does what Close
// does. Meanwhile Lock, TryLock, Acquire and Adopt return [ErrClosed], even if they wait already,
// and locks that are only kept ([WithKeep]) are released. Leases are renewed, and an owner
// ([Session.NewContext]) can enter again what it holds. The program must end holds without an end
// of their own, such as a leader's.
//
// If ctx ends first, Shutdown does what Close with that ctx does: the remaining holds are lost,
// with [ErrLost] and ErrClosed. Then it returns ctx's error. A Close meanwhile does the same
// without ctx's error; a second Shutdown waits too.
func (s *Session) Shutdown(ctx context.Context) error { return s.e.Shutdown(ctx) }

// NewContext returns a context with a new owner. Calls under it, on locks of any session, do not
// exclude each other, and enter again what the owner holds. [FromContext] returns s from it.
func (s *Session) NewContext(ctx context.Context) context.Context {
	return local.WithOwner(ctx, local.NewOwner(s))
}

// FromContext returns the session that made the owner in ctx, if any.
func FromContext(ctx context.Context) (*Session, bool) {
	if o := local.OwnerOf(ctx); o != nil {
		s, ok := o.Minter.(*Session)
		return s, ok
	}
	return nil, false
}
