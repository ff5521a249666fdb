package engine

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/pubsub"
	"github.com/relock-go/relock/internal/queue"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// Config configures an Engine.
type Config struct {
	Scripts  *wire.Scripts
	Prefix   string         // before the names of all locks
	Label    string         // of the session, for people; may be empty
	Lease    time.Duration  // of locks without one of their own
	Tenure   time.Duration  // how long a hold may be passed among the goroutines of this process
	Replicas int            // replicas that must acknowledge an acquisition
	AckWait  time.Duration  // for their acknowledgement
	Observer event.Observer // nil: nobody is told
}

type (
	side   = arbiter.Lock[*lease.Lease]
	waiter = arbiter.Waiter[*lease.Lease]
	table  = arbiter.Table[*lease.Lease]
)

// An Engine takes and keeps the locks of one session. It is safe for concurrent use.
type Engine struct {
	// Never change after Start.
	Config     Config
	Clock      *clock.Clock
	id         string
	leaseMS    string // Config.Lease
	deployment string
	proto      *wire.Protocol
	lockCtx    *transport.Context // ends when the engine drains; bounds calls of Lock whose own context has no end
	callCtx    *transport.Context // ends with closing; bounds other calls
	ioCtx      context.Context    // ends when everything is released or abandoned: goroutines end
	halt       context.CancelFunc // ends ioCtx

	arbiters [wire.Semaphore + 1]*table // who of this process has a lock, by kind; both sides of an RWMutex have one

	queue     *queue.Queue
	watchdog  *lease.Watchdog
	cleaner   *lease.Cleaner
	keeper    *keeper
	broker    *pubsub.Broker
	forced    named    // which of its own holds were forced open, as far as messages said so
	overtaken named    // which were named as the holders of locks that are wanted
	parts     sync.Map // of Redlocks: *lease.Lease by hold id

	drainOnce sync.Once
	closeOnce sync.Once
	closing   chan struct{}   // closed by Close, and when Shutdown has waited: calls end
	abandoned context.Context // ends when Close may not wait for Redis any more
	abandon   context.CancelFunc
	finished  chan struct{} // closed when they have ended, or some are stuck in rueidis after abandoned
	closeErr  error         // set before finished is closed
	own       tasks         // end with ioCtx
	strays    tasks         // calls of rueidis that may outlive their contexts
	calls     tasks         // operations under way
	releases  tasks         // of what Close has lost
	left      sync.Map      // *lease.Lease of those that are not released, and why if that is known
}

// New returns an engine that has not started.
func New(client rueidis.Client, cfg Config) *Engine {
	e := &Engine{
		id:       newUUID(),
		Config:   cfg,
		Clock:    clock.New(),
		closing:  make(chan struct{}),
		finished: make(chan struct{}),
		own:      newTasks(),
		strays:   newTasks(),
		calls:    newTasks(),
		releases: newTasks(),
	}
	e.ioCtx, e.halt = context.WithCancel(context.Background())
	e.abandoned, e.abandon = context.WithCancel(context.Background())
	e.leaseMS = wire.Millis(cfg.Lease)
	conn := transport.NewConn(client, cfg.Replicas, cfg.AckWait, &e.strays)
	conn.Over = e.ioCtx.Done()
	e.broker = pubsub.New(pubsub.Config{Conn: conn, Clock: e.Clock, Handler: e.heard, Tasks: &e.own, Ctx: e.ioCtx})
	e.proto = wire.NewProtocol(conn, cfg.Scripts, min(wire.ClaimMost, cfg.Lease))
	e.lockCtx, e.callCtx = transport.Background(), transport.Background()
	e.watchdog = lease.NewWatchdog(lease.WatchdogConfig{
		Proto: e.proto, Clock: e.Clock, Lease: cfg.Lease, Ctx: e.ioCtx, Owner: e,
	})
	e.cleaner = lease.NewCleaner(e.abandoned, e.proto, e.Clock, e.ioCtx.Done())
	e.queue = queue.New(queue.Config{
		Proto: e.proto, Broker: e.broker, Clock: e.Clock, Session: e.id, Ctx: e.ioCtx,
	})
	e.keeper = newKeeper(e)
	e.newArbiters()
	return e
}

func (e *Engine) newArbiters() {
	rules := arbiter.Rules[*lease.Lease]{
		Now: e.Clock.Now, ID: forcedID, Certain: lease.Certain, Pass: e.pass, Keep: e.keeper.keep, Resume: e.keeper.resume,
		Outlasts: func(l, other *lease.Lease) bool { return l.Began > other.Began },
		Expire:   func(_ string, l *lease.Lease) { e.Lost(l, lockerr.ErrExpired) },
		Gone:     func(_ string, l *lease.Lease) { e.Lost(l, lockerr.ErrGone) },
	}
	mutexes, rws := arbiter.NewTable(rules), arbiter.NewTable(rules)
	rules.Open = true
	e.arbiters = [...]*table{
		wire.Plain: mutexes, wire.Fair: arbiter.NewTable(rules), wire.Write: rws, wire.Read: rws,
		wire.Semaphore: arbiter.NewTable(rules),
	}
}

// newUUID returns a random UUID, as Redisson's clients call themselves. Theirs are of
// version 4, ours of version 8; the scripts tell them apart by that.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// random is for the hold ids of all sessions. In FIPS mode each of the goroutines that read
// rand.Reader at once seeds a generator, which takes a processor for milliseconds.
var random = struct {
	sync.Mutex
	*bufio.Reader
}{Reader: bufio.NewReaderSize(rand.Reader, 512)}

// newID returns a hold id that no hold had before, with a random number of 62 bits that nobody can
// guess: who knows it can end the hold, or pretend that it was granted. Redisson reads the number
// as the id of a thread.
func (e *Engine) newID(k wire.Kind) string {
	var buf [64]byte
	var n [8]byte
	random.Lock()
	_, _ = io.ReadFull(random.Reader, n[:]) // never fails
	random.Unlock()
	b := append(buf[:0], e.id...)
	b = append(b, ':')
	b = strconv.AppendUint(b, binary.LittleEndian.Uint64(n[:])>>2, 10)
	b = append(b, k.Suffix()...)
	return string(b)
}

// ID returns the session's identity, the first part of its hold ids.
func (e *Engine) ID() string { return e.id }

// Deployment identifies the Redis that the engine is connected to: engines of one deployment
// return the same.
func (e *Engine) Deployment() string { return e.deployment }

// Connected reports whether the deployment answers on the connection of the subscriptions.
func (e *Engine) Connected() bool { return e.proto.Up.Load() }

// Done returns a channel that is closed when the session closes.
func (e *Engine) Done() <-chan struct{} { return e.closing }

// Closed reports whether the session closes.
func (e *Engine) Closed() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// Draining reports whether nothing new is granted: Shutdown or Close was called.
func (e *Engine) Draining() bool { return e.lockCtx.Err() != nil }

// Begin counts a call that Close waits for. It fails after Close; otherwise End must follow.
func (e *Engine) Begin() bool {
	e.track()
	if e.Closed() {
		e.End()
		return false
	}
	return true
}

// track counts a call that Close waits for, also after Close: an unlock that finds its hold
// closed sends nothing, and one that was faster must release it. End must follow.
func (e *Engine) track() { e.calls.n.Add(1) }

// End ends a call that Begin counted.
func (e *Engine) End() {
	e.calls.done()
	if e.Closed() && e.abandoned.Err() != nil {
		e.loseAll() // Close has not waited for this call
	}
}
