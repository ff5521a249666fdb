package pubsub

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

const (
	probeInterval = time.Second // between two polls of a connection

	// Channels without listeners stay subscribed for at least maxStaleAge: that often, a connection
	// is replaced for their sake.
	maxStaleAge = 10 * time.Second

	// How long a connection is kept beside the one that replaces it, if it still works, or is
	// silent and may only be slow.
	keepBeside = 10 * time.Second
)

var (
	errCut   = errors.New("subscription connection closed")
	errStale = errors.New("subscription connection has channels that nobody wants") // tells nobody of a failure
)

// connection is one network connection, which subscribes channels of one node, or of the whole
// deployment outside a cluster. When it fails, or has too many channels that nobody wants any
// more, the others move to another one. One that may still work is kept for a while beside
// that, so that the server goes on counting its subscriptions; a message may be heard on both.
type connection struct {
	broker *Broker
	addr   string        // of the node, in a cluster
	kick   chan struct{} // gets a signal when a channel is to be subscribed

	// Set by dial.
	conn    rueidis.DedicatedClient
	release func() // gives conn back to the client
	lost    <-chan error
	apart   bool // it hears messages on a second socket: RESP2

	// guarded by Broker.mu
	up    bool                       // it passed its last poll
	subs  map[string]*subscription   // assigned to it, in the end those that were, by channel
	asked map[*subscription]struct{} // those that the server has, or is asked for
}

// run serves the connection's channels until it fails, and leaves them to another one.
func (c *connection) run() {
	b := c.broker
	err := c.serve()
	if err != errStale {
		timing.Pause(b.Ctx, c.down(err))
	}
	c.leave(err)
	if c.conn == nil {
		return
	}
	if err == errStale || err == transport.ErrSilent {
		select {
		case <-time.After(keepBeside):
		case <-c.lost:
		case <-b.Ctx.Done():
		}
	}
	c.conn.Close() // takes up to a second
	c.release()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range c.subs {
		s.lostLocked(c)
	}
}

// serve opens the connection and uses it until it fails. It returns errStale if it is better
// replaced, or if no channel needs it any more.
func (c *connection) serve() error {
	if err := c.dial(); err != nil {
		return err
	}
	probes := time.NewTicker(probeInterval)
	defer probes.Stop()
	for {
		if err := c.subscribeNew(); err != nil {
			return err
		}
		select {
		case <-c.kick:
		case <-probes.C:
			if err := c.probe(); err != nil {
				return err
			}
			if c.stale() {
				return errStale
			}
		case err := <-c.lost:
			return cmp.Or(err, errCut)
		case <-c.broker.Ctx.Done():
			return c.broker.Ctx.Err()
		}
	}
}

// dial opens a connection that is alive and leads to a primary. It may block for as long as
// the client's dial does, or until it is clear that the client's pool is exhausted.
func (c *connection) dial() error {
	b := c.broker
	conn, release, err := b.Conn.Dial(b.Ctx, c.addr)
	if err != nil {
		return err
	}
	c.apart = apart(b.Ctx, conn)
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: b.onMessage, OnSubscription: c.onSubscription})
	c.conn, c.release, c.lost = conn, release, lost
	b.mu.Lock()
	c.up, b.err = true, nil
	b.updateUpLocked()
	b.mu.Unlock()
	return nil
}

// down marks the channels as not subscribed, and wakes their listeners, who look again. It
// returns how long to wait before the channels are subscribed elsewhere.
func (c *connection) down(err error) time.Duration {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	c.up = false
	b.updateUpLocked()
	b.err = err
	b.fails++
	for _, s := range c.subs {
		if s.live == c {
			s.live = nil
		}
		s.signalLocked()
	}
	return timing.Jitter(min(20*time.Millisecond<<min(b.fails-1, 6), time.Second))
}

// leave forgets the channels that nobody wants any more and moves the others to another
// connection, in a cluster to one of another node if this one failed with err: a replica may
// have taken over.
func (c *connection) leave(err error) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c.addr)
	exclude := ""
	if err != errStale && b.Conn.Slots != nil {
		exclude = c.addr
		b.Conn.Slots.Refresh()
	}
	now := b.Clock.Now()
	for _, s := range c.subs {
		if s.wantedLocked(now) {
			b.assignLocked(s, exclude)
		} else {
			b.forgetLocked(s)
		}
	}
	if next := b.conns[c.addr]; next != nil && err == errStale {
		next.up = true // until it is open, c still works
	}
	b.updateUpLocked()
}

// stale reports, after a poll, whether channels without listeners have been subscribed for so
// long that a connection without them is worth opening, or none is left. Channels are never
// unsubscribed: rueidis panics when a server that is busy with a script refuses UNSUBSCRIBE (it
// sends a PING behind it, and both are refused).
func (c *connection) stale() bool {
	b := c.broker
	now := b.Clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails = 0
	for _, s := range c.subs {
		if !s.wantedLocked(now) && now-s.idleSince > int64(maxStaleAge) {
			return true
		}
	}
	return len(c.subs) == 0
}

// onSubscription runs on the connection's reader: it must not block. Confirmations are the
// results of the commands; but when a slot moves, its node ends the subscriptions by itself.
func (c *connection) onSubscription(push rueidis.PubSubSubscription) {
	if push.Kind != "sunsubscribe" {
		return
	}
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := c.subs[push.Channel]; s != nil {
		delete(c.asked, s)
		s.lostLocked(c)
		b.Conn.Slots.Refresh()
		timing.Signal(c.kick)
	}
}

// probe checks that the connection is alive and leads to a primary. That is asked on the socket of
// commands; where messages have their own, a channel is subscribed there once more.
func (c *connection) probe() error {
	b := c.broker
	err := b.Conn.Check(b.Ctx, c.conn)
	if s := c.live(); err == nil && c.apart && s != nil {
		ctx, cancel := timing.Within(b.Ctx, transport.AnswerMost)
		defer cancel()
		err = c.conn.Do(ctx, s.command(c.conn.B())).NonRedisError()
	}
	return transport.Silence(err)
}

// live returns a channel that is subscribed, nil if there is none.
func (c *connection) live() *subscription {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	for s := range c.asked {
		if s.live == c {
			return s
		}
	}
	return nil
}

// apart reports whether conn has a second socket for messages. It sends nothing: rueidis refuses to
// mix these commands, and says whether that is the reason.
func apart(ctx context.Context, conn rueidis.DedicatedClient) bool {
	subscribe, blocking := conn.B().Subscribe().Channel("").Build(), conn.B().Arbitrary("PING").Blocking()
	return conn.DoMulti(ctx, subscribe, blocking)[0].Error() == rueidis.ErrRESP2PubSubMixed
}
