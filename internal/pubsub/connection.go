package pubsub

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

const (
	probeInterval = 500 * time.Millisecond // between two probes of a connection
	idleInterval  = time.Second            // the same while no call of the session is under way

	// PingTimeout bounds one command on a subscription connection.
	PingTimeout = time.Second
)

// connection subscribes the channels of one node, or of the whole deployment outside a
// cluster. It works over one link after another. Its goroutine, run, dials, subscribes,
// probes the link in use, and starts over when that fails or leads to a replica.
type connection struct {
	broker *Broker
	addr   string        // of the node, in a cluster
	kick   chan struct{} // gets a signal when unsent has grown

	// guarded by Broker.mu
	subs      map[string]*subscription   // assigned to this connection, by channel
	unsent    map[*subscription]struct{} // those to be subscribed
	link      *link                      // the link in use, nil if there is none
	up        bool                       // the link in use passed its last probe
	idleSince int64                      // since when no channel is wanted, 0 if one is
}

var (
	errStopped = errors.New("stopped")
	errRetired = errors.New("no channel needs the connection any more")
	errReplica = errors.New("subscription connection leads to a replica")
	errSilent  = errors.New("subscription connection does not answer")
	errCut     = errors.New("subscription connection closed")
)

func newConnection(b *Broker, addr string) *connection {
	return &connection{
		broker: b,
		addr:   addr,
		kick:   make(chan struct{}, 1),
		subs:   make(map[string]*subscription),
		unsent: make(map[*subscription]struct{}),
	}
}

// run keeps the connection up until the broker stops, or in a cluster until no channel needs
// it or it fails.
func (c *connection) run() {
	backoff := 20 * time.Millisecond
	for {
		start := time.Now()
		if !c.serve() {
			return
		}
		if time.Since(start) > 5*time.Second {
			backoff = 20 * time.Millisecond
		}
		if !c.sleep(backoff) {
			return
		}
		backoff = min(2*backoff, time.Second)
	}
}

// sleep waits for about d, and reports false if the broker stops first.
func (c *connection) sleep(d time.Duration) bool {
	timing.Pause(c.broker.Ctx, timing.Jitter(d))
	return c.broker.Ctx.Err() == nil
}

// serve opens a link and uses it until it fails or is not needed. It reports whether run
// goes on.
func (c *connection) serve() bool {
	l, err := c.open()
	if err == nil {
		c.attach(l)
		err = c.use(l)
	}
	pause := c.disconnected(err)
	if c.broker.Slots != nil && err != errRetired && !c.sleep(pause) {
		return false
	}
	return c.reassign(err)
}

// dial returns a connection that nobody else uses. It may block for as long as the client's
// dial does, or until it is clear that the client's pool is exhausted.
func (c *connection) dial() (rueidis.DedicatedClient, func(), error) {
	cfg := &c.broker.Config
	if c.broker.Slots == nil {
		return cfg.Dedicate(cfg.Client)
	}
	node := cfg.Client.Nodes()[c.addr]
	if node == nil {
		return nil, nil, errors.New("the cluster has no node " + c.addr)
	}
	return cfg.Dedicate(node)
}

// attach makes l the link in use. Nothing is subscribed on it yet.
func (c *connection) attach(l *link) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	c.link = l
	c.setUpLocked()
}

func (c *connection) setUpLocked() {
	c.up = true
	c.broker.fails = 0
	c.broker.updateUpLocked()
}

// use serves on l, and on the links that replace it, until the one in use fails or is not
// needed. Outside a cluster a link that does not answer is kept beside the attempts to
// replace it, since it may answer yet; in a cluster the channels may have to move to another
// node.
func (c *connection) use(l *link) error {
	r := &replacement{conn: c, link: l}
	r.probes = time.NewTimer(r.interval())
	defer r.probes.Stop()
	for {
		err := r.step()
		switch {
		case isTimeout(err) && c.broker.Slots == nil && c.broker.Ctx.Err() == nil:
			r.unresponsive()
		case err != nil:
			r.end(err)
			return err
		}
	}
}

// disconnected marks all channels as not subscribed and wakes their listeners. It returns how
// long to wait before the channels are subscribed elsewhere in a cluster.
func (c *connection) disconnected(err error) time.Duration {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	c.up = false
	b.updateUpLocked()
	for _, s := range c.subs {
		s.live = false
		s.signalLocked() // listeners look again, and see that nothing is subscribed
	}
	if err != errRetired {
		b.err = err
	}
	b.fails++
	return min(50*time.Millisecond<<min(b.fails-1, 5), time.Second)
}

// recovered undoes disconnected when the link has answered after all. It was not lost, so
// neither are the subscriptions sent on it: Redis confirmed them before that answer.
func (c *connection) recovered() {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	c.setUpLocked()
	for _, s := range c.subs {
		if s.sent && !s.live {
			s.confirmLocked()
		}
	}
}

// reassign queues all channels for subscription after the last link ended with err, and
// reports whether run goes on with another link. In a cluster it does not: the channels move
// to connections of other nodes, since a node that failed may have been replaced.
func (c *connection) reassign(err error) bool {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	c.link = nil
	if b.Slots == nil {
		for _, s := range c.subs {
			s.live = false
			s.resubscribeLocked()
		}
		return true
	}
	if err != errRetired {
		b.Slots.Refresh()
	}
	subs := c.subs
	c.subs = make(map[string]*subscription)
	delete(b.conns, c.addr)
	b.updateUpLocked()
	exclude := c
	if err == errRetired {
		exclude = nil // a channel that came just now may use this node
	}
	for _, s := range subs {
		b.assignLocked(s, exclude)
	}
	return false
}

// probe checks that conn is alive and leads to a primary.
func (c *connection) probe(conn rueidis.DedicatedClient) error {
	ctx, cancel := c.broker.bounded()
	defer cancel()
	if c.broker.NoRole.Load() {
		return conn.Do(ctx, conn.B().Ping().Build()).Error()
	}
	reply, err := conn.Do(ctx, conn.B().Role().Build()).ToArray()
	if _, refused := transport.Code(err); refused {
		if transport.Unsupported(err) {
			c.broker.NoRole.Store(true)
		}
		return nil // alive; its role is unknown
	}
	if err != nil {
		return err
	}
	if !IsPrimary(reply) {
		return errReplica
	}
	return nil
}

// IsPrimary reads the reply of ROLE.
func IsPrimary(role []rueidis.RedisMessage) bool {
	if len(role) == 0 {
		return false
	}
	name, _ := role[0].ToString()
	return name == "master"
}

// isTimeout reports whether a command on a link got no answer in time: the end of its context
// shows as a cancellation.
func isTimeout(err error) bool { return errors.Is(err, context.Canceled) }
