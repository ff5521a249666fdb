package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/pubsub"
	"github.com/relock-go/relock/internal/queue"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// A Session takes and keeps the locks of one deployment. It is safe for concurrent use.
type Session struct {
	*acquire.Node
	broker *pubsub.Broker
	ioCtx  context.Context    // ends when everything is released or abandoned: goroutines end
	halt   context.CancelFunc // ends ioCtx

	drainOnce sync.Once
	closeOnce sync.Once
	closing   chan struct{}   // closed by Close, and when Shutdown has waited: calls end
	abandoned context.Context // ends when Close may not wait for Redis any more
	abandon   context.CancelFunc
	finished  chan struct{} // closed when goroutines have ended, or some are stuck in rueidis after abandoned
	closeErr  error         // set before finished is closed
	own       tasks         // the goroutines, which end with ioCtx
	calls     tasks         // operations under way
	strays    tasks         // calls of rueidis that may outlive their contexts
	left      leftovers     // leases that Close has lost, or calls have left behind, until they are released
	unknown   atomic.Int32  // releases for hold ids that were granted a lock, and that no call has

	// Waits until the session's own channel is subscribed; nil until run.
	subscribed func(ctx context.Context) error
}

// New returns a session that has not started.
func New(client rueidis.Client, cfg acquire.Config) *Session {
	s := &Session{
		closing:  make(chan struct{}),
		finished: make(chan struct{}),
		own:      newTasks(),
		calls:    newTasks(),
		strays:   newTasks(),
		left:     newLeftovers(),
	}
	s.ioCtx, s.halt = context.WithCancel(context.Background())
	s.abandoned, s.abandon = context.WithCancel(context.Background())
	conn := transport.NewConn(client, cfg.Replicas, cfg.AckWait, &s.strays)
	conn.Over = s.ioCtx.Done()
	n := &acquire.Node{
		Config: cfg, Clock: clock.New(), ID: newUUID(),
		Proto:    wire.NewProtocol(conn, cfg.Scripts, min(wire.GrantMost, cfg.Lease)),
		Draining: transport.Background(), Closing: transport.Background(),
		Calls: s,
	}
	s.Node = n
	s.broker = pubsub.New(pubsub.Config{Conn: conn, Clock: n.Clock, Handler: s.heard, Tasks: &s.own, Ctx: s.ioCtx})
	n.Watchdog = lease.NewWatchdog(lease.WatchdogConfig{
		Proto: n.Proto, Clock: n.Clock, Lease: cfg.Lease, Ctx: s.ioCtx, Owner: n,
	})
	n.Cleaner = lease.NewCleaner(s.abandoned, n.Proto, n.Clock, s.ioCtx.Done())
	n.Queue = queue.New(queue.Config{Proto: n.Proto, Broker: s.broker, Clock: n.Clock, Session: n.ID, Ctx: s.ioCtx})
	n.Keeper = lease.NewKeeper(lease.KeeperConfig{Clock: n.Clock, Drop: n.Drop, Told: s.kept()})
	n.Init()
	return s
}

// kept returns what tells the observer how many leases are kept, nil if there is none.
func (s *Session) kept() func(leases int) {
	o := s.Config.Observer
	if o == nil {
		return nil
	}
	return func(leases int) { o.Kept(event.Keep{Session: s.ID, Leases: leases}) }
}

// newUUID returns a random UUID, as Redisson's clients call themselves. Theirs are of version 4,
// ours of version 8; the scripts tell them apart by that.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Done returns a channel that is closed when the session closes.
func (s *Session) Done() <-chan struct{} { return s.closing }

// Connected reports whether the deployment answers on the connection of the subscriptions.
func (s *Session) Connected() bool { return s.Proto.Up.Load() }
