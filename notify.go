package relock

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const linger = time.Second // a channel stays subscribed at least that long after its last listener

// hub shares subscriptions among all listeners of a session. Channels are subscribed
// on lines, of which there is one per node of a cluster where a channel needs it, and
// one in all elsewhere.
//
// Whoever waits for a message first joins the channel, then looks at the lock, then
// waits: a message after the confirmation cannot be missed, and each confirmation,
// the first and every one after a reconnect, wakes the listeners to look again.
type hub struct {
	client  rueidis.Client
	cluster bool
	atlas   *atlas                             // of a cluster
	sharded bool                               // lock channels are sharded
	handler func(channel, message string) bool // sees every message first; true if it was not for a topic; must not block
	clock   *clock
	spawn   func(func()) // starts a goroutine that ends with stop
	stop    <-chan struct{}

	up     atomic.Bool  // every line was alive when it was looked at last
	noRole atomic.Bool  // the server does not tell whether it is a primary
	many   atomic.Int32 // topics; the first is that of the session

	mu     sync.Mutex        // protects the following, and lines and topics where they say so
	topics map[string]*topic // by channel
	lines  map[string]*line  // by address; the only one outside a cluster has none
	err    error             // why the last line failed
	fails  int               // lines that have failed since one was up
}

// seenLocked takes account of whether the lines are alive.
func (h *hub) seenLocked() {
	up := len(h.lines) > 0
	for _, n := range h.lines {
		up = up && n.up
	}
	h.up.Store(up)
}

// topic is one channel. It exists while somebody listens, and for a while after. It is
// guarded by hub.mu.
type topic struct {
	channel   string
	sharded   bool
	slot      uint16 // of a sharded channel
	line      *line
	listeners []*listener
	sent      bool  // SUBSCRIBE was sent on the line
	live      bool  // and confirmed
	idle      int64 // since when nobody listens
	heard     int64 // messages so far
	last      int64 // when the last one came
	err       error // why it was refused last
	refusals  int   // how often since it was live
	wait      int64 // until when not to try again after a refusal
}

// listener is one wait for messages of a channel.
type listener struct {
	C       chan struct{} // has a signal after a message and after each confirmation
	f       func()        // or is called then, with hub.mu locked
	hub     *hub
	channel string
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
		t := h.topics[channel]
		live = t.live
		err := t.err
		if err == nil {
			err = h.err
		}
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
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[l.channel]
	if t == nil {
		t = &topic{channel: l.channel, sharded: h.sharded && !isSessionChannel(l.channel)}
		if t.sharded {
			t.slot = slotOf(t.channel)
		}
		h.topics[l.channel] = t
		h.many.Add(1)
		h.placeLocked(t, nil)
	}
	t.listeners = append(t.listeners, l)
	return t.live
}

// placeLocked gives a topic a line, another than not if there is a choice.
func (h *hub) placeLocked(t *topic, not *line) {
	select {
	case <-h.stop:
		return
	default:
	}
	addr := ""
	if h.cluster {
		addr = h.homeLocked(t, not)
	}
	n := h.lines[addr]
	if n == nil {
		n = &line{hub: h, addr: addr, kick: make(chan struct{}, 1), topics: make(map[string]*topic)}
		h.lines[addr] = n
		h.seenLocked()
		h.spawn(n.run)
	}
	t.line, t.sent, t.live = n, false, false
	n.topics[t.channel] = t
	wake(n.kick)
}

// homeLocked returns the node to subscribe a channel on. A sharded channel has one; if
// it is not known any node will do, for it tells. Others are everywhere.
func (h *hub) homeLocked(t *topic, not *line) string {
	suits := func(addr string) bool { return addr != "" && (not == nil || addr != not.addr) }
	if t.sharded {
		if addr := h.atlas.home(t.slot); suits(addr) {
			return addr
		}
	}
	for addr, n := range h.lines {
		if suits(addr) && n.up {
			return addr
		}
	}
	addrs := h.atlas.primaries()
	if len(addrs) == 0 || len(addrs) == 1 && !suits(addrs[0]) {
		addrs = slices.Collect(maps.Keys(h.client.Nodes()))
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	if i := slices.IndexFunc(addrs, suits); i >= 0 {
		return addrs[i]
	}
	return not.addr
}

// known reports whether a channel is subscribed or about to be.
func (h *hub) known(channel string) bool {
	if h.many.Load() <= 1 {
		return false
	}
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

// onMessage runs on a connection's reader: it must not block.
func (h *hub) onMessage(m rueidis.PubSubMessage) {
	if m.Message == forRedisson || h.handler(m.Channel, m.Message) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[m.Channel]; t != nil {
		t.heard++
		t.last = h.clock.now()
		t.signalLocked()
	}
}

// heard is what was heard of a channel so far.
type heard struct {
	n    int64 // messages
	last int64 // when the last one came
	live bool  // the next one will be heard, too
}

func (h *hub) heard(channel string) heard {
	if h.many.Load() <= 1 {
		return heard{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[channel]
	if t == nil {
		return heard{}
	}
	return heard{t.heard, t.last, t.live}
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
