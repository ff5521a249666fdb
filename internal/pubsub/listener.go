package pubsub

import (
	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// Listener waits for messages of one channel.
type Listener struct {
	C       chan struct{} // gets a signal after a message and after each confirmation
	f       func()        // called instead, with Broker.mu locked
	broker  *Broker
	channel string
}

// Subscribe starts listening to a channel and reports whether it is subscribed already.
// Otherwise a signal follows the confirmation.
func (b *Broker) Subscribe(channel string) (*Listener, bool) {
	l := &Listener{C: make(chan struct{}, 1), broker: b, channel: channel}
	return l, b.add(l)
}

// SubscribeFunc starts listening with a function in place of a channel. It must neither
// block nor use the broker.
func (b *Broker) SubscribeFunc(channel string, f func()) *Listener {
	l := &Listener{f: f, broker: b, channel: channel}
	b.add(l)
	return l
}

func (b *Broker) add(l *Listener) (live bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subs[l.channel]
	if s == nil {
		s = &subscription{channel: l.channel, sharded: b.Shards != nil && b.Shards(l.channel)}
		if s.sharded {
			s.slot = transport.Slot(s.channel)
		}
		b.subs[l.channel] = s
		b.assignLocked(s, nil)
	}
	s.listeners = append(s.listeners, l)
	return s.live
}

// Live reports whether the listener's channel is subscribed now.
func (l *Listener) Live() bool {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	return l.broker.subs[l.channel].live
}

// Unsubscribe stops listening. It must be called at most once.
func (l *Listener) Unsubscribe() {
	b := l.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subs[l.channel]
	for i, other := range s.listeners {
		if other == l {
			last := len(s.listeners) - 1
			s.listeners[i], s.listeners[last] = s.listeners[last], nil
			s.listeners = s.listeners[:last]
			break
		}
	}
	if len(s.listeners) == 0 {
		s.idleSince = b.Clock.Now()
	}
}

// onMessage runs on a connection's reader: it must not block.
func (b *Broker) onMessage(m rueidis.PubSubMessage) {
	if b.Handler(m.Channel, m.Message) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.subs[m.Channel]; s != nil {
		s.signalLocked()
	}
}

// signalLocked wakes all listeners.
func (s *subscription) signalLocked() {
	for _, l := range s.listeners {
		if l.f != nil {
			l.f()
		} else {
			timing.Signal(l.C)
		}
	}
}

// confirmLocked marks the channel as subscribed after a time in which messages may have been
// missed.
func (s *subscription) confirmLocked() {
	s.live, s.err, s.refusals, s.retryAt = true, nil, 0, 0
	s.signalLocked()
}

// resubscribeLocked queues the channel for SUBSCRIBE on its connection.
func (s *subscription) resubscribeLocked() {
	s.sent = false
	s.conn.unsent[s] = struct{}{}
}

// wantedLocked reports whether the channel has listeners, or had one a moment ago.
func (s *subscription) wantedLocked(now int64) bool {
	return len(s.listeners) > 0 || now-s.idleSince <= int64(linger)
}
