package pubsub

import (
	"slices"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
)

// Listener waits for messages of one channel.
type Listener struct {
	f       func() // called after a message and after each confirmation, with Broker.mu locked
	broker  *Broker
	channel string
}

// SubscribeFunc starts listening to a channel. f, which must neither block nor use the broker,
// is called after each message and each confirmation of the subscription.
func (b *Broker) SubscribeFunc(channel string, f func()) *Listener {
	l := &Listener{f: f, broker: b, channel: channel}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subs[channel]
	if s == nil {
		s = &subscription{channel: channel, sharded: b.Shards != nil && b.Shards(channel)}
		if s.sharded {
			s.slot = transport.Slot(channel)
		}
		b.subs[channel] = s
		b.assignLocked(s, nil)
	}
	s.listeners = append(s.listeners, l)
	return l
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
	i := slices.Index(s.listeners, l)
	s.listeners = slices.Delete(s.listeners, i, i+1)
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
		l.f()
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
