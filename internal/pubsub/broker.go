package pubsub

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// Broker shares subscriptions among all listeners of a session. It is safe for concurrent
// use. Make it with New.
type Broker struct {
	Config

	// Set before the first subscription, constant afterwards.
	Shards func(channel string) bool // reports whether a channel is sharded; nil: none is

	mu    sync.Mutex               // protects the following, and what subscription, connection and link say
	subs  map[string]*subscription // by channel
	conns map[string]*connection   // by address; the only one outside a cluster has the address ""
	err   error                    // why the last connection failed; nil once one is up
	fails int                      // failures since a connection passed a poll
}

// Config is what a broker needs.
type Config struct {
	Conn  *transport.Conn // the broker keeps its Up
	Clock *clock.Clock

	// Handler sees every message first and reports whether it consumed it. It runs on a
	// connection's reader and must not block.
	Handler func(channel, message string) bool

	Tasks transport.Group // runs goroutines that end with Ctx
	Ctx   context.Context
}

// New returns a broker without subscriptions.
func New(cfg Config) *Broker {
	return &Broker{Config: cfg, subs: make(map[string]*subscription), conns: make(map[string]*connection)}
}

// Pin listens to a channel as SubscribeFunc does, for the life of the broker. f is told whether the
// channel is subscribed now. It returns a function that waits for the confirmation: that returns
// the error of a refusal, or of the connection, when ctx ends or another attempt has no chance, and
// otherwise ctx's error. It may be called again, by one goroutine at a time.
func (b *Broker) Pin(channel string, f func(live bool)) (confirmed func(ctx context.Context) error) {
	changed := make(chan struct{}, 1)
	b.SubscribeFunc(channel, func() {
		timing.Signal(changed)
		s := b.subs[channel]
		f(s != nil && s.live != nil)
	})
	return func(ctx context.Context) error {
		for {
			live, last, hopeless := b.pinned(channel)
			switch {
			case live:
				return nil
			case hopeless:
				return last
			case ctx.Err() != nil:
				return cmp.Or(last, ctx.Err())
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// pinned reports whether a channel is subscribed, otherwise why it could not be last, and
// whether there is no use in waiting for the next attempt. In a cluster that is on another node.
func (b *Broker) pinned(channel string) (live bool, last error, hopeless bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subs[channel]
	if last = b.err; s.err != nil {
		last = s.err
	}
	if s.live != nil || last == nil {
		return s.live != nil, nil, false
	}
	_, refused := transport.Code(last)
	return false, last, b.Conn.Slots == nil || refused && !transport.Transient(last) ||
		errors.Is(last, transport.ErrPool) || max(b.fails, s.refusals) >= 2*len(b.Conn.Client.Nodes())
}

// Live reports whether a channel is subscribed now.
func (b *Broker) Live(channel string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subs[channel]
	return s != nil && s.live != nil
}

// updateUpLocked recomputes Conn.Up: whether all connections have passed their last polls.
func (b *Broker) updateUpLocked() {
	up := len(b.conns) > 0
	for _, c := range b.conns {
		up = up && c.up
	}
	b.Conn.Up.Store(up)
}

// assignLocked assigns a connection to a subscription, avoiding the node at exclude where
// there is a choice, and starts the connection if it is new.
func (b *Broker) assignLocked(s *subscription, exclude string) {
	if b.Ctx.Err() != nil {
		return
	}
	addr := ""
	if b.Conn.Slots != nil {
		addr = b.pickNodeLocked(s, exclude)
	}
	c := b.conns[addr]
	if c == nil {
		c = &connection{
			broker: b, addr: addr, kick: make(chan struct{}, 1),
			subs: make(map[string]*subscription), asked: make(map[*subscription]struct{}),
		}
		b.conns[addr] = c
		b.updateUpLocked()
		b.Tasks.Go(c.run)
	}
	c.subs[s.channel] = s
	timing.Signal(c.kick)
}

// pickNodeLocked returns the address of the node to subscribe on. A sharded channel belongs
// to the primary of its slot; while that is unknown any node will do, since it answers with
// the right one. All other channels work on every node, best on one that is known to answer.
func (b *Broker) pickNodeLocked(s *subscription, exclude string) string {
	slots := b.Conn.Slots
	var addrs []string
	if s.shard {
		addrs = append(addrs, slots.Primary(s.slot))
	}
	for addr, c := range b.conns {
		if c.up {
			addrs = append(addrs, addr)
		}
	}
	addrs = append(addrs, slots.Primaries()...)
	addrs = slices.AppendSeq(addrs, maps.Keys(b.Conn.Client.Nodes()))
	if i := slices.IndexFunc(addrs, func(addr string) bool { return addr != "" && addr != exclude }); i >= 0 {
		return addrs[i]
	}
	return exclude
}
