package pubsub

import (
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
)

const (
	// Channels without listeners stay subscribed until there are maxStale more of them than
	// of others, or one is older than maxStaleAge. A link is replaced for their sake at most
	// every minReplaceInterval.
	maxStale           = 1000
	maxStaleAge        = 10 * time.Second
	minReplaceInterval = 10 * time.Second

	closeDelay = 10 * time.Second // before a link that may only be slow is closed
)

// link is one network connection of a connection.
type link struct {
	owner   *connection
	conn    rueidis.DedicatedClient
	release func() // gives conn back to the client
	lost    <-chan error
	opened  int64        // when
	proved  atomic.Int64 // when a message came last that Broker.Proves

	ready map[*subscription]struct{} // subscribed before the link is in use; guarded by Broker.mu
}

// open returns a link that is alive and leads to a primary. It may block for as long as the
// client's dial does.
func (c *connection) open() (*link, error) {
	conn, release, err := c.dial()
	if err != nil {
		return nil, err
	}
	l := &link{
		owner:   c,
		conn:    conn,
		release: release,
		opened:  c.broker.Clock.Now(),
		ready:   make(map[*subscription]struct{}),
	}
	l.proved.Store(l.opened) // by the probe that follows
	l.lost = conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: l.onMessage, OnSubscription: l.onSubscription})
	if err := c.probe(conn); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// close closes the link. It may take up to a second.
func (l *link) close() {
	l.conn.Close()
	l.release()
}

// closeDelayed closes a link that does not answer, but not at once: if it is only slow, the
// server still counts its subscriptions until the channels are subscribed elsewhere.
func (l *link) closeDelayed() {
	select {
	case <-time.After(closeDelay):
	case <-l.lost:
	case <-l.owner.broker.Ctx.Done():
	}
	l.close()
}

// onMessage runs on the link's reader: it must not block.
func (l *link) onMessage(m rueidis.PubSubMessage) {
	b := l.owner.broker
	if b.Proves != nil && b.Proves(m.Message) {
		l.proved.Store(b.Clock.Now())
	}
	b.onMessage(m)
}

// onSubscription runs on the link's reader: it must not block.
func (l *link) onSubscription(push rueidis.PubSubSubscription) {
	c := l.owner
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	s := c.subs[push.Channel]
	if s == nil {
		return
	}
	switch removed := push.Kind == "sunsubscribe"; {
	case c.link != l:
		if removed {
			delete(l.ready, s)
		}
	case removed: // the slot has moved; listeners are signalled when the new node confirms
		if s.live {
			b.Slots.Refresh()
		}
		s.live = false
		s.resubscribeLocked()
		timing.Signal(c.kick)
	case s.sent && s.live: // it was live on the link before, without a gap
		s.err, s.refusals, s.retryAt = nil, 0, 0
	case s.sent:
		s.confirmLocked()
	}
}

// successor opens a link and subscribes all wanted channels on it.
func (c *connection) successor() (*link, error) {
	l, err := c.open()
	if err != nil {
		return nil, err
	}
	b := c.broker
	var subs []*subscription
	b.mu.Lock()
	now := b.Clock.Now()
	for _, s := range c.subs {
		if s.wantedLocked(now) && now >= s.retryAt {
			l.ready[s] = struct{}{}
			subs = append(subs, s)
		}
	}
	b.mu.Unlock()
	refused, err := c.subscribe(l.conn, subs)
	if err != nil {
		l.close()
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range refused { // tried again when the link is in use
		delete(l.ready, r.subscription)
	}
	return l, nil
}

// switchTo makes l the link in use, and forgets the channels that nobody wants any more.
func (c *connection) switchTo(l *link) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	c.link = l
	c.setUpLocked()
	now := b.Clock.Now()
	for channel, s := range c.subs {
		_, ready := l.ready[s]
		switch {
		case ready:
			s.sent = true
			delete(c.unsent, s)
			if !s.live {
				s.confirmLocked()
			}
		case !s.wantedLocked(now):
			c.forgetLocked(channel)
		default:
			s.resubscribeLocked() // still live: the link before is open until this is sent
		}
	}
	l.ready = nil
}

func (c *connection) forgetLocked(channel string) {
	if c.subs[channel].pattern {
		c.broker.patterns--
	}
	delete(c.unsent, c.subs[channel])
	delete(c.subs, channel)
	delete(c.broker.subs, channel)
}

// outgrown reports whether so many or so old channels without listeners are subscribed that
// a link without them is worth opening.
func (c *connection) outgrown() bool {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Clock.Now()
	if now-c.link.opened < int64(minReplaceInterval) {
		return false
	}
	stale, oldest := 0, now
	for _, s := range c.subs {
		if !s.wantedLocked(now) {
			stale++
			oldest = min(oldest, s.idleSince)
		}
	}
	return stale > maxStale+len(c.subs)-stale || stale > 0 && now-oldest > int64(maxStaleAge)
}

// retireIfIdle reports whether no channel has needed the connection for a while, and then
// forgets all of them. Outside a cluster the connection stays.
func (c *connection) retireIfIdle() bool {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Clock.Now()
	for _, s := range c.subs {
		if b.Slots == nil || s.wantedLocked(now) {
			c.idleSince = 0
			return false
		}
	}
	if c.idleSince == 0 {
		c.idleSince = now
	}
	if b.Slots == nil || now-c.idleSince <= int64(linger) {
		return false
	}
	for channel := range c.subs {
		c.forgetLocked(channel)
	}
	return true
}
