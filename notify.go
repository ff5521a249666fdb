package relock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	linger       = time.Second            // a channel stays subscribed that long after its last listener
	pingInterval = 500 * time.Millisecond // how often the connection is looked at
	pingTimeout  = time.Second
)

// hub keeps one dedicated subscription connection and shares its channels among all
// listeners. One goroutine, run, owns the connection: it dials, subscribes,
// unsubscribes, looks whether the connection is alive and still leads to the
// primary, and starts over when it is not.
//
// Whoever waits for a message first joins the channel, then looks at the lock, then
// waits: a message after the confirmation cannot be missed, and each confirmation,
// the first and every one after a reconnect, wakes the listeners to look again.
type hub struct {
	dial    func() (rueidis.DedicatedClient, func()) // may block for as long as the client's dial does
	role    bool                                     // ask the connection's role: a failover may leave it on the old primary
	handler func(channel, message string) bool       // sees every message first; true if it was not for a topic; must not block
	clock   *clock
	kick    chan struct{} // topics have changed
	stop    <-chan struct{}

	mu     sync.Mutex        // protects the following
	topics map[string]*topic // by channel
	err    error             // why there is no connection now
}

// topic is one channel. It exists while somebody listens, and for linger after.
type topic struct {
	listeners []*listener
	sent      bool  // SUBSCRIBE was sent on this connection
	live      bool  // and confirmed
	idle      int64 // since when nobody listens
}

// listener is one wait for messages of a channel.
type listener struct {
	C       chan struct{} // has a signal after a message and after each confirmation
	f       func()        // or is called then, with hub.mu locked
	hub     *hub
	channel string
}

func newHub(c *clock, stop <-chan struct{}) *hub {
	return &hub{clock: c, stop: stop, kick: make(chan struct{}, 1), topics: make(map[string]*topic)}
}

// pin subscribes a channel for the life of the hub and waits until that is confirmed.
func (h *hub) pin(ctx context.Context, channel string) error {
	l, live := h.join(channel) // and never leaves
	for !live {
		select {
		case <-l.C:
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		h.mu.Lock()
		live = h.topics[channel].live
		err := h.err
		h.mu.Unlock()
		if !live && err != nil {
			return err
		}
	}
	return nil
}

// join starts listening to a channel and reports whether it is subscribed already.
// If it is not, a signal follows when it is.
func (h *hub) join(channel string) (*listener, bool) {
	l := &listener{C: make(chan struct{}, 1), hub: h, channel: channel}
	return l, h.add(l)
}

// watch starts listening with a function instead, which must not block nor use the
// hub.
func (h *hub) watch(channel string, f func()) *listener {
	l := &listener{f: f, hub: h, channel: channel}
	h.add(l)
	return l
}

func (h *hub) add(l *listener) (live bool) {
	channel := l.channel
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[channel]
	if t == nil {
		t = new(topic)
		h.topics[channel] = t
		wake(h.kick)
	}
	t.listeners = append(t.listeners, l)
	return t.live
}

// known reports whether a channel is subscribed or about to be.
func (h *hub) known(channel string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[channel] != nil
}

// live reports whether the listener's channel is subscribed now.
func (l *listener) live() bool {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	return l.hub.topics[l.channel].live
}

// leave ends the listening.
func (l *listener) leave() {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[l.channel]
	for i, other := range t.listeners {
		if other == l {
			last := len(t.listeners) - 1
			t.listeners[i], t.listeners[last] = t.listeners[last], nil
			t.listeners = t.listeners[:last]
			break
		}
	}
	if len(t.listeners) == 0 {
		t.idle = h.clock.now()
	}
}

// onMessage runs on the connection's reader: it must not block.
func (h *hub) onMessage(m rueidis.PubSubMessage) {
	if h.handler != nil && h.handler(m.Channel, m.Message) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[m.Channel]; t != nil {
		t.signalLocked()
	}
}

func (t *topic) signalLocked() {
	for _, l := range t.listeners {
		if l.f != nil {
			l.f()
		} else {
			wake(l.C)
		}
	}
}

// onSubscription runs on the connection's reader: it must not block.
func (h *hub) onSubscription(s rueidis.PubSubSubscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[s.Channel]
	if t == nil {
		return
	}
	switch s.Kind {
	case "subscribe", "ssubscribe":
		t.live = t.sent
		t.signalLocked()
	case "sunsubscribe": // the slot has moved away
		t.live, t.sent = false, false
		wake(h.kick)
	}
}

// run keeps the connection until stop.
func (h *hub) run() {
	backoff := 20 * time.Millisecond
	for {
		start := time.Now()
		err := h.serve()
		h.mu.Lock()
		h.err = err
		for _, t := range h.topics {
			t.live, t.sent = false, false
			t.signalLocked() // look again, and notice that nothing is subscribed
		}
		h.mu.Unlock()
		if time.Since(start) > 5*time.Second {
			backoff = 20 * time.Millisecond
		}
		select {
		case <-h.stop:
			return
		case <-time.After(jitter(backoff)):
			backoff = min(2*backoff, time.Second)
		}
	}
}

var errStopped = errors.New("stopped")

// serve uses one connection until it fails or the hub stops.
func (h *hub) serve() error {
	conn, put := h.dial()
	defer put()
	defer conn.Close()
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: h.onMessage, OnSubscription: h.onSubscription})
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	if err := h.probe(conn); err != nil {
		return err
	}
	for {
		if err := h.update(conn); err != nil {
			return err
		}
		select {
		case <-h.kick:
		case <-ping.C:
			if err := h.probe(conn); err != nil {
				return err
			}
		case err := <-lost:
			if err == nil {
				err = errors.New("subscription connection closed")
			}
			return err
		case <-h.stop:
			return errStopped
		}
	}
}

// update subscribes the channels that are new and unsubscribes those that nobody
// has listened to for a while.
func (h *hub) update(conn rueidis.DedicatedClient) error {
	var add, drop []string
	now := h.clock.now()
	h.mu.Lock()
	h.err = nil
	for channel, t := range h.topics {
		switch {
		case len(t.listeners) == 0 && now-t.idle > int64(linger):
			if t.sent {
				drop = append(drop, channel)
			}
			delete(h.topics, channel)
		case !t.sent:
			t.sent = true
			add = append(add, channel)
		}
	}
	h.mu.Unlock()
	if len(drop) > 0 {
		if err := h.do(conn, conn.B().Unsubscribe().Channel(drop...).Build()); err != nil {
			return err
		}
	}
	if len(add) > 0 {
		return h.do(conn, conn.B().Subscribe().Channel(add...).Build())
	}
	return nil
}

// probe asks whether the connection is alive and leads to the primary.
func (h *hub) probe(conn rueidis.DedicatedClient) error {
	if !h.role {
		return h.do(conn, conn.B().Ping().Build())
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
		return errors.New("subscription connection leads to a replica")
	}
	return nil
}

func (h *hub) do(conn rueidis.DedicatedClient, cmd rueidis.Completed) error {
	ctx, cancel := bounded(pingTimeout)
	defer cancel()
	return conn.Do(ctx, cmd).Error()
}

// bounded returns a context that ends after d without having a deadline.
func bounded(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}
