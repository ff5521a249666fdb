package relock

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/quorum"
	"github.com/relock-go/relock/internal/wire"
)

// A Session is a process's part in the locks of one Redis deployment. It has an
// identity, renews the leases of everything held through it, listens for unlock
// messages, and makes handles of locks. One per process and deployment is enough,
// whatever the number of locks: its goroutines and connections do not grow with
// them.
//
// A Session is made by [NewSession] and ended by [Session.Close]. It must not
// be copied, and is safe for concurrent use.
type Session struct {
	_        noCopy
	e        *engine.Engine
	redlocks *quorum.Table // where the Redlocks of this process queue
}

func init() {
	peek.Engine = func(session any) *engine.Engine { return session.(*Session).e }
	peek.Reader = func(lock any) *engine.Lock { return &lock.(*RWMutex).read }
	peek.Redlock = func(lock any) *quorum.Redlock { return lock.(*Redlock).l }
	peek.Scripts = func() *wire.Scripts { return scripts }
}

// NewSession starts a session on a client that the caller has made, keeps, and
// closes after the session. It checks that the server can be reached, that scripts
// may be run, and that its channels may be subscribed and published to, and says what is
// missing; ctx bounds that, and not the life of the session. A read-only replica is refused;
// while a failover is under way NewSession waits for the primary until ctx ends.
//
// The client may be of a single server, of Sentinel, or of a cluster. Several
// sessions may share a client. Sessions of the same process on the same deployment
// exclude each other like those of different processes.
func NewSession(ctx context.Context, client rueidis.Client, opts ...SessionOption) (*Session, error) {
	if isNil(client) {
		return nil, errors.New("relock: NewSession: the client is nil; pass what rueidis.NewClient returned")
	}
	c, err := sessionConfigOf(opts)
	if err != nil {
		return nil, lockerr.New("NewSession", "", err)
	}
	s := new(Session)
	c.Scripts, c.Dispatch = scripts, s.dispatch
	s.e = engine.New(client, c)
	s.redlocks = quorum.NewTable(s.e)
	if err := s.e.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// ID returns the session's identity, which is part of every hold id.
func (s *Session) ID() string { return s.e.ID() }

// Done returns a channel that is closed when Close is called.
func (s *Session) Done() <-chan struct{} { return s.e.Done() }

// Close ends the session: waiting calls return ErrClosed, every hold is lost and
// released in Redis, goroutines and subscriptions end. It blocks until that is done or ctx
// ends; bound it, since Redis may not answer. What it has not released when ctx ends, or
// after 5 s without an answer, expires with its lease, and its error names it.
//
// Nothing of the session is left when Close returns, with one exception: when Redis hangs, a
// call may be inside rueidis, which nothing can end, until rueidis' own timeouts (3 s for a
// reply, [rueidis.ClientOption].Dialer.Timeout for a new connection). An ended ctx still gives
// Redis 100 ms. Close may be called more than once; the client stays open.
func (s *Session) Close(ctx context.Context) error { return s.e.Close(ctx) }

// NewContext returns a context with a new owner in it. Every lock taken under that
// context, or one derived from it, belongs to that owner, and the owner may lock
// again what it holds. Locks of any session honour it.
//
// Give an owner to a unit of work, such as a request, whose functions lock the same
// thing independently of each other. The session travels with it: see [FromContext].
// Goroutines that share the context share the owner, and do not exclude each other.
func (s *Session) NewContext(ctx context.Context) context.Context {
	return arbiter.WithOwner(ctx, &arbiter.Owner{Minter: s})
}

// FromContext returns the session that minted the owner in ctx, if there is one. So code
// that has only a context can lock, and lock again what its callers hold.
func FromContext(ctx context.Context) (*Session, bool) {
	if o := arbiter.OwnerOf(ctx); o != nil {
		s, ok := o.Minter.(*Session)
		return s, ok
	}
	return nil, false
}
