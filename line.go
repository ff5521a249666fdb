package relock

import (
	"errors"
	"time"

	"github.com/redis/rueidis"
)

const (
	pingInterval = 500 * time.Millisecond // how often the connection is looked at
	pingTimeout  = time.Second

	// Channels without listeners stay subscribed until there are staleMost more than
	// others, or one is staleLong old.
	staleMost = 1000
	staleLong = 10 * time.Second
)

// line is one subscription connection. Its goroutine, run, owns the connection: it
// dials, subscribes, unsubscribes, looks whether the connection is alive and still
// leads to a primary, and starts over when it is not.
type line struct {
	hub    *hub
	addr   string            // of the node, in a cluster
	kick   chan struct{}     // topics have changed
	topics map[string]*topic // those of this line; guarded by hub.mu
	idle   int64             // since when there are none, 0 if there are some; guarded by hub.mu
	up     bool              // it was alive when it was looked at last; guarded by hub.mu
}

var (
	errStopped  = errors.New("stopped")
	errRetired  = errors.New("no channel needs the connection any more")
	errReplica  = errors.New("subscription connection leads to a replica")
	errReplaced = errors.New("connection replaced by one with fewer channels")
	errCut      = errors.New("subscription connection closed")
)

// run keeps the connection until the hub stops, or in a cluster no channel needs it.
func (n *line) run() {
	backoff := 20 * time.Millisecond
	for {
		start := time.Now()
		if !n.serve() {
			return
		}
		if time.Since(start) > 5*time.Second {
			backoff = 20 * time.Millisecond
		}
		if !n.sleep(backoff) {
			return
		}
		backoff = min(2*backoff, time.Second)
	}
}

// sleep waits for about d, and reports false if the hub stops before.
func (n *line) sleep(d time.Duration) bool {
	select {
	case <-n.hub.stop:
		return false
	case <-time.After(jitter(d)):
		return true
	}
}

// failed takes account of the end of a connection and reports whether the line goes on
// with another one. In a cluster its channels move to another node, which knows whether
// this one has been replaced.
func (n *line) failed(err error) bool {
	h := n.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != errRetired {
		h.err = err
	}
	for _, t := range n.topics {
		t.live, t.sent = false, false
		if h.cluster {
			delete(n.topics, t.channel)
			delete(h.homes, h.slot(t.channel))
			h.placeLocked(t, n)
		}
	}
	if h.cluster && len(n.topics) == 0 {
		delete(h.lines, n.addr)
		h.seenLocked()
		return false
	}
	return true
}

// dial returns a connection of its own. It may block for as long as the client's dial
// does.
func (n *line) dial() (rueidis.DedicatedClient, func(), error) {
	if !n.hub.cluster {
		conn, put := n.hub.client.Dedicate()
		return conn, put, nil
	}
	node := n.hub.client.Nodes()[n.addr]
	if node == nil {
		return nil, nil, errors.New("the cluster has no node " + n.addr)
	}
	conn, put := node.Dedicate()
	return conn, put, nil
}

// serve uses a connection until it fails or is not needed, and reports whether the
// line goes on with another one.
func (n *line) serve() bool {
	err := n.once()
	for err == errReplaced {
		n.anew()
		err = n.once()
	}
	if n.hub.cluster && err != errRetired && !n.sleep(50*time.Millisecond) {
		return false
	}
	return n.failed(err)
}

// once uses one connection and returns why it ended.
func (n *line) once() error {
	conn, put, err := n.dial()
	if err == nil {
		defer put()
		defer conn.Close() // takes up to a second
		err = n.use(conn)
	}
	n.down()
	return err
}

// anew has all channels of the line subscribed on its next connection.
func (n *line) anew() {
	n.hub.mu.Lock()
	defer n.hub.mu.Unlock()
	for _, t := range n.topics {
		t.sent = false
	}
}

// down tells everybody that there is no connection now.
func (n *line) down() {
	h := n.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	n.up = false
	h.seenLocked()
	for _, t := range n.topics {
		t.live = false
		t.signalLocked() // look again, and notice that nothing is subscribed
	}
}

func (n *line) use(conn rueidis.DedicatedClient) error {
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: n.hub.onMessage, OnSubscription: n.onSubscription})
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	if err := n.probe(conn); err != nil {
		return err
	}
	n.hub.mu.Lock()
	n.up = true
	n.hub.seenLocked()
	n.hub.mu.Unlock()
	for {
		if err := n.update(conn); err != nil {
			return err
		}
		select {
		case <-n.kick:
		case <-ping.C:
			if err := n.probe(conn); err != nil {
				return err
			}
		case err := <-lost:
			if err == nil {
				err = errCut
			}
			return err
		case <-n.hub.stop:
			return errStopped
		}
	}
}

// onSubscription runs on the connection's reader: it must not block.
func (n *line) onSubscription(s rueidis.PubSubSubscription) {
	h := n.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	t := n.topics[s.Channel]
	if t == nil {
		return
	}
	switch s.Kind {
	case "subscribe", "ssubscribe":
		if t.live = t.sent; t.live && t.sharded {
			h.homes[h.slot(t.channel)] = n.addr
		}
		t.heard += turnsMost // so many may have been missed
		t.signalLocked()
	case "sunsubscribe": // the slot has moved away
		t.live, t.sent = false, false
		wake(n.kick)
	}
}

// update subscribes the channels that are new. Channels that nobody listens to any more
// are not unsubscribed: when they have become many or old, the connection is replaced by
// one without them. rueidis panics when a server that is busy with a script refuses
// UNSUBSCRIBE (it sends a PING behind it, and is refused twice).
func (n *line) update(conn rueidis.DedicatedClient) error {
	h, b := n.hub, conn.B()
	var add []string
	var shardAdd []*topic
	now := h.clock.now()
	h.mu.Lock()
	h.err = nil
	for channel, t := range n.topics {
		if t.sent {
			continue
		}
		t.sent = true
		if t.sharded {
			shardAdd = append(shardAdd, t)
		} else {
			add = append(add, channel)
		}
	}
	replaced := n.sweepLocked(now)
	retired := n.retiredLocked(now)
	h.mu.Unlock()

	switch {
	case retired:
		return errRetired
	case replaced:
		return errReplaced
	}
	if len(add) > 0 {
		if err := n.do(conn, b.Subscribe().Channel(add...).Build()); err != nil {
			return err
		}
	}
	for _, t := range shardAdd { // channels of one command must share a slot
		if err := n.subscribe(conn, t); err != nil {
			return err
		}
	}
	return nil
}

// sweepLocked forgets the channels that nobody has listened to for a while, if that is
// worth a new connection, and reports whether it has.
func (n *line) sweepLocked(now int64) bool {
	stale, oldest := 0, now
	for _, t := range n.topics {
		if len(t.listeners) == 0 {
			stale++
			oldest = min(oldest, t.idle)
		}
	}
	live := len(n.topics) - stale
	patience := staleLong
	if n.hub.cluster && live == 0 {
		patience = linger // the line will retire
	}
	if stale == 0 || stale <= staleMost+live && now-oldest <= int64(patience) {
		return false
	}
	for channel, t := range n.topics {
		if len(t.listeners) == 0 && now-t.idle > int64(linger) {
			delete(n.topics, channel)
			delete(n.hub.topics, channel)
		}
	}
	return true
}

// subscribe subscribes a sharded channel, or hands it over to the node that has it.
func (n *line) subscribe(conn rueidis.DedicatedClient, t *topic) error {
	err := n.do(conn, conn.B().Ssubscribe().Channel(t.channel).Build())
	re, refused := rueidis.IsRedisErr(err)
	if !refused {
		return err
	}
	addr, moved := re.IsMoved()
	if !moved && redisCode(re.Error()) != "CLUSTERDOWN" {
		return err
	}
	h := n.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(n.topics, t.channel)
	delete(h.homes, h.slot(t.channel))
	if moved && addr != n.addr {
		h.homes[h.slot(t.channel)] = addr
		h.placeLocked(t, nil)
	} else {
		h.placeLocked(t, n)
	}
	return nil
}

// retiredLocked reports whether nothing has needed the line for a while. Outside a
// cluster it stays.
func (n *line) retiredLocked(now int64) bool {
	if !n.hub.cluster || len(n.topics) > 0 {
		n.idle = 0
		return false
	}
	if n.idle == 0 {
		n.idle = now
	}
	return now-n.idle > int64(linger)
}

// probe asks whether the connection is alive and leads to a primary.
func (n *line) probe(conn rueidis.DedicatedClient) error {
	if !n.hub.role {
		return n.do(conn, conn.B().Ping().Build())
	}
	ctx, cancel := bounded(pingTimeout)
	defer cancel()
	reply, err := conn.Do(ctx, conn.B().Role().Build()).ToArray()
	if _, refused := rueidis.IsRedisErr(err); refused {
		return nil // alive, and does not tell
	}
	if err != nil {
		return err
	}
	if role, _ := reply[0].ToString(); role != "master" {
		return errReplica
	}
	return nil
}

func (n *line) do(conn rueidis.DedicatedClient, cmd rueidis.Completed) error {
	ctx, cancel := bounded(pingTimeout)
	defer cancel()
	return conn.Do(ctx, cmd).Error()
}
