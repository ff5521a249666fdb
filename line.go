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
// leads to a primary, and starts over when it is not. A replica is sent the messages,
// too, but its listeners are not counted where they are published.
type line struct {
	hub    *hub
	addr   string            // of the node, in a cluster
	kick   chan struct{}     // topics have changed
	topics map[string]*topic // those of this line; guarded by hub.mu
	idle   int64             // since when there are none, 0 if there are some; guarded by hub.mu
	up     bool              // it was alive when it was looked at last; guarded by hub.mu
}

var (
	errStopped = errors.New("stopped")
	errRetired = errors.New("no channel needs the connection any more")
	errReplica = errors.New("subscription connection leads to a replica")
	errFewer   = errors.New("connection replaced by one with fewer channels")
	errCut     = errors.New("subscription connection closed")
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
	if !h.cluster {
		for _, t := range n.topics {
			t.live, t.sent = false, false
		}
		return true
	}
	if err != errRetired {
		h.atlas.stale()
	}
	topics := n.topics
	n.topics = make(map[string]*topic)
	delete(h.lines, n.addr)
	h.seenLocked()
	for _, t := range topics {
		h.placeLocked(t, n)
	}
	return false
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
	for err == errFewer {
		n.down()
		n.anew()
		err = n.once()
	}
	pause := n.down()
	if n.hub.cluster && err != errRetired && !n.sleep(pause) {
		return false
	}
	return n.failed(err)
}

// once uses one connection and returns why it ended.
func (n *line) once() error {
	conn, put, err := n.dial()
	if err != nil {
		return err
	}
	defer put()
	defer conn.Close() // takes up to a second
	return n.use(conn)
}

// anew has all channels of the line subscribed on its next connection.
func (n *line) anew() {
	n.hub.mu.Lock()
	defer n.hub.mu.Unlock()
	n.hub.fails = 0
	for _, t := range n.topics {
		t.sent = false
	}
}

// down tells everybody that there is no connection now, and returns how long to wait
// before the channels are subscribed elsewhere in a cluster.
func (n *line) down() time.Duration {
	h := n.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	n.up = false
	h.seenLocked()
	for _, t := range n.topics {
		t.live = false
		t.signalLocked() // look again, and notice that nothing is subscribed
	}
	h.fails++
	return min(50*time.Millisecond<<min(h.fails-1, 5), time.Second)
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
	n.hub.fails = 0
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
	if n.hub.noRole.Load() {
		return n.do(conn, conn.B().Ping().Build())
	}
	ctx, cancel := bounded(pingTimeout)
	defer cancel()
	reply, err := conn.Do(ctx, conn.B().Role().Build()).ToArray()
	if _, refused := redisError(err); refused {
		n.hub.noRole.Store(true)
		return nil // alive, and does not tell
	}
	if err != nil {
		return err
	}
	if !isPrimary(reply) {
		return errReplica
	}
	return nil
}

// isPrimary reads the reply of ROLE.
func isPrimary(role []rueidis.RedisMessage) bool {
	if len(role) == 0 {
		return false
	}
	is, _ := role[0].ToString()
	return is == "master"
}

func (n *line) do(conn rueidis.DedicatedClient, cmd rueidis.Completed) error {
	ctx, cancel := bounded(pingTimeout)
	defer cancel()
	return conn.Do(ctx, cmd).Error()
}
