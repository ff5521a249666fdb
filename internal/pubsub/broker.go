package pubsub

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// linger is how long a channel stays subscribed at least after its last listener left.
const linger = time.Second

// Broker shares subscriptions among all listeners of a session. It is safe for concurrent
// use. Make it with New.
type Broker struct {
	Config

	// Set before the first subscription, constant afterwards.
	Slots  *transport.SlotMap        // nil outside a cluster
	Shards func(channel string) bool // reports whether a channel is sharded; nil: none is

	Up     atomic.Bool // every connection passed its last probe
	NoRole atomic.Bool // the server does not answer ROLE usefully: probe with PING

	mu         sync.Mutex               // protects the following, and what subscription, connection and link say
	subs       map[string]*subscription // by channel
	conns      map[string]*connection   // by address; the only one outside a cluster has the address ""
	patterns   int                      // how many of subs are patterns, at most maxPatterns
	noPatterns bool                     // the user has no right to them
	err        error                    // why the last connection failed
	fails      int                      // failed connections since one was up
}

// Config is what a broker needs.
type Config struct {
	Client rueidis.Client
	Clock  *clock.Clock

	// Handler sees every message first and reports whether it consumed it. It runs on a
	// connection's reader and must not block.
	Handler func(channel, message string) bool

	// Proves reports whether a message shows that the link on which it came leads to a primary, as
	// long as the session has only that one. nil: none does.
	Proves func(message string) bool

	// Busy reports whether a call of the session is under way.
	Busy func() bool

	// Spawn starts a goroutine that ends with Ctx.
	Spawn func(func())
	Ctx   context.Context

	// Dedicate returns a connection that nobody else uses, and a function that gives it back.
	Dedicate func(transport.Dedicater) (rueidis.DedicatedClient, func(), error)
}

// subscription is one channel. It exists while it has listeners, and for a while after.
// Broker.mu guards it, but for its first four fields, which are constant.
type subscription struct {
	channel string // or pattern
	pattern bool
	sharded bool
	slot    uint16 // of a sharded channel

	conn      *connection // that it is assigned to
	sent      bool        // SUBSCRIBE was sent on conn
	live      bool        // and confirmed
	listeners []*Listener
	idleSince int64 // when the last listener left

	err      error // the last refusal
	refusals int   // since it was live
	retryAt  int64 // earliest next attempt after a refusal
}

// New returns a broker without subscriptions.
func New(cfg Config) *Broker {
	return &Broker{Config: cfg, subs: make(map[string]*subscription), conns: make(map[string]*connection)}
}

// Pin subscribes a channel for the life of the broker and waits for the confirmation. It
// returns ctx's error when that ends first, and otherwise the error of a refusal, or of the
// connection, when another attempt has no chance.
func (b *Broker) Pin(ctx context.Context, channel string) error {
	signal := make(chan struct{}, 1)
	l := b.SubscribeFunc(channel, func() { timing.Signal(signal) }) // never unsubscribed
	for live := l.Live(); !live; {
		select {
		case <-signal:
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
		b.mu.Lock()
		s := b.subs[channel]
		live = s.live
		last, retry := b.retryLocked(s)
		b.mu.Unlock()
		switch {
		case live:
		case ctx.Err() != nil && (last == nil || transport.IsContextError(last)):
			return ctx.Err()
		case ctx.Err() != nil || !retry:
			return last
		}
	}
	return nil
}

// retryLocked returns why a channel could not be subscribed last, and whether the next
// attempt may succeed: in a cluster that is on another node.
func (b *Broker) retryLocked(s *subscription) (last error, retry bool) {
	last, attempts := b.err, b.fails
	if s.err != nil {
		last, attempts = s.err, s.refusals
	}
	if last == nil {
		return nil, true
	}
	_, refused := transport.Code(last)
	return last, b.Slots != nil && (!refused || transport.Transient(last)) &&
		!errors.Is(last, transport.ErrPool) && attempts < 2*len(b.Client.Nodes())
}

// bounded returns a context for one command on a subscription connection, without a deadline.
func (b *Broker) bounded() (context.Context, context.CancelFunc) {
	return timing.Within(b.Ctx, PingTimeout)
}

// Live reports whether a channel is subscribed now.
func (b *Broker) Live(channel string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subs[channel]
	return s != nil && s.live
}

// Listeners returns the number of listeners of a channel, also by its pattern.
func (b *Broker) Listeners(channel string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range []string{channel, patternOf(channel)} {
		if s := b.subs[name]; s != nil {
			n += len(s.listeners)
		}
	}
	return n
}

// updateUpLocked recomputes Up.
func (b *Broker) updateUpLocked() {
	up := len(b.conns) > 0
	for _, c := range b.conns {
		up = up && c.up
	}
	b.Up.Store(up)
}

// assignLocked assigns a connection to a subscription, avoiding exclude where there is a
// choice, and starts the connection if it is new.
func (b *Broker) assignLocked(s *subscription, exclude *connection) {
	if b.Ctx.Err() != nil {
		return
	}
	addr := ""
	if b.Slots != nil {
		addr = b.pickNodeLocked(s, exclude)
	}
	c := b.conns[addr]
	if c == nil {
		c = newConnection(b, addr)
		b.conns[addr] = c
		b.updateUpLocked()
		b.Spawn(c.run)
	}
	s.conn, s.live = c, false
	c.subs[s.channel] = s
	s.resubscribeLocked()
	timing.Signal(c.kick)
}

// pickNodeLocked returns the address of the node to subscribe on. A sharded channel belongs
// to the primary of its slot; while that is unknown any node will do, since it answers with
// the right one. All other channels work on every node.
func (b *Broker) pickNodeLocked(s *subscription, exclude *connection) string {
	suits := func(addr string) bool { return addr != "" && (exclude == nil || addr != exclude.addr) }
	if s.sharded {
		if addr := b.Slots.Primary(s.slot); suits(addr) {
			return addr
		}
	}
	for addr, c := range b.conns {
		if suits(addr) && c.up {
			return addr
		}
	}
	if addr := b.Slots.Awake(); suits(addr) {
		return addr
	}
	addrs := b.Slots.Primaries()
	if len(addrs) == 0 || len(addrs) == 1 && !suits(addrs[0]) {
		addrs = slices.Collect(maps.Keys(b.Client.Nodes()))
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	if i := slices.IndexFunc(addrs, suits); i >= 0 {
		return addrs[i]
	}
	return exclude.addr
}
