package relock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/arbiter"
)

// A Session is a process's part in the locks of one Redis deployment. It has an
// identity, renews the leases of everything held through it, listens for unlock
// messages, and makes lock values. One per process and deployment is enough,
// whatever the number of locks: its goroutines and connections do not grow with
// them.
//
// A Session is made by [NewSession] and ended by [Session.Close]. It is safe for
// concurrent use.
type Session struct {
	id      string
	cfg     sessionConfig
	leaseMS string // cfg.lease
	place   string // identity of the deployment
	proto   *protocol
	clock   *clock

	table  *arbiter.Table[*lease]   // of Mutexes
	fairs  *arbiter.Table[*lease]   // of FairMutexes
	rws    *arbiter.RW[*lease]      // of RWMutexes
	reds   *arbiter.Table[*redHold] // of Redlocks that queue here
	forces lateForces               // that came lately
	room   *room                    // waiters of FairMutexes
	turns  turns
	watch  *watchdog
	clean  *cleaner
	hub    *hub

	callCtx *ioCtx // ends with closing; for calls that wait and whose own context has no end
	ioCtx   *ioCtx // ends with stopping

	drained  chan struct{} // a signal when calls may have come down to 0 after closing
	once     sync.Once
	closing  chan struct{} // closed by Close: nothing new is taken
	stopping chan struct{} // closed when everything is released: goroutines end
	finished chan struct{} // closed when they have
	closeErr error         // set before finished is closed
	wg       sync.WaitGroup

	_     cacheLine
	calls atomic.Int64  // operations under way
	seq   atomic.Uint64 // last number given to a hold id
	rtt   atomic.Int64  // of an acquire, smoothed, in ns
}

// NewSession starts a session on a client that the caller has made, keeps, and
// closes after the session. It checks that the server can be reached, that scripts
// may be run, and that its channels may be subscribed and published to, and says what is
// missing; ctx bounds that, and not the life of the session.
//
// The client may be of a single server, of Sentinel, or of a cluster. Several
// sessions may share a client. Sessions of the same process on the same deployment
// exclude each other like those of different processes.
func NewSession(ctx context.Context, client rueidis.Client, opts ...SessionOption) (*Session, error) {
	if client == nil {
		return nil, errors.New("relock: NewSession: the client is nil; pass what rueidis.NewClient returned")
	}
	s := &Session{
		id:       newUUID(),
		cfg:      sessionConfig{lease: defaultLease, tenure: defaultTenure},
		clock:    newClock(),
		drained:  make(chan struct{}, 1),
		closing:  make(chan struct{}),
		stopping: make(chan struct{}),
		finished: make(chan struct{}),
	}
	for _, o := range opts {
		if o != nil {
			o.applySession(&s.cfg)
		}
	}
	if s.cfg.err != nil {
		return nil, failed("NewSession", "", s.cfg.err)
	}
	s.leaseMS = millis(s.cfg.lease)
	s.proto = newProtocol(client, &s.cfg)
	s.callCtx = &ioCtx{
		Context: context.Background(), done: make(chan struct{}),
		proto: s.proto, most: patience + s.cfg.ackWait,
	}
	s.ioCtx = &ioCtx{Context: context.Background(), done: make(chan struct{})}
	rules := arbiter.Rules[*lease]{Now: s.clock.now, Certain: certain, Pass: s.pass}
	s.table = arbiter.NewTable(rules)
	s.rws = arbiter.NewRW(rules)
	s.reds = arbiter.NewTable(s.redRules())
	rules.Open = true
	s.fairs = arbiter.NewTable(rules)
	s.watch = newWatchdog(s)
	s.clean = newCleaner(s)
	s.hub = &hub{
		client: client, handler: s.onMessage, clock: s.clock, spawn: s.wg.Go, stop: s.stopping,
		topics: make(map[string]*topic), lines: make(map[string]*line),
	}
	s.proto.up, s.proto.wg = &s.hub.up, &s.wg
	s.room = newRoom(s)

	if err := s.check(ctx); err != nil {
		return nil, err
	}
	silent := s.publish(ctx)
	if s.proto.atlas != nil {
		s.wg.Go(func() { s.proto.atlas.run(s.ioCtx) })
	}
	s.wg.Go(s.watch.run)
	s.wg.Go(s.watch.renews)
	s.wg.Go(s.clean.run)
	s.wg.Go(s.room.run)
	if err := s.channels(ctx, silent); err != nil {
		_ = s.Close(ctx) // goes on in the background if ctx has ended
		return nil, err
	}
	return s, nil
}

func newProtocol(client rueidis.Client, c *sessionConfig) *protocol {
	return &protocol{
		client: client, publish: "PUBLISH", counted: "1", claim: min(claimMost, c.lease),
		up: new(atomic.Bool), start: time.Now(), wg: new(sync.WaitGroup),
	}
}

// newUUID returns a random UUID, which is what Redisson's clients call themselves.
// Theirs are of version 4; ours are of version 8, by which FairMutex tells them apart.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// ID returns the session's identity, which is part of every hold id.
func (s *Session) ID() string { return s.id }

// Done returns a channel that is closed when Close is called.
func (s *Session) Done() <-chan struct{} { return s.closing }

type ownerKey struct{}

// NewContext returns a context with a new owner in it. Every lock taken under that
// context, or one derived from it, belongs to that owner, and the owner may lock
// again what it holds. Locks of any session honour it.
//
// Give an owner to a unit of work, such as a request, whose functions lock the same
// thing independently of each other. Goroutines that share the context share the
// owner, and do not exclude each other.
func (s *Session) NewContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, &arbiter.Owner{Minter: s})
}

// FromContext returns the session that minted the owner in ctx, if there is one.
func FromContext(ctx context.Context) (*Session, bool) {
	if o := ownerOf(ctx); o != nil {
		s, ok := o.Minter.(*Session)
		return s, ok
	}
	return nil, false
}

func ownerOf(ctx context.Context) *arbiter.Owner {
	o, _ := ctx.Value(ownerKey{}).(*arbiter.Owner)
	return o
}

func (s *Session) closed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// begin counts an operation that Close has to wait for. It fails when the session
// is closed; otherwise end must follow.
func (s *Session) begin() bool {
	s.calls.Add(1)
	if s.closed() {
		s.end()
		return false
	}
	return true
}

func (s *Session) end() {
	if s.calls.Add(-1) == 0 && s.closed() {
		wake(s.drained)
	}
}
