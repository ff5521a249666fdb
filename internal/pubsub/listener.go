package pubsub

import (
	"slices"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
)

// linger is how long a channel stays subscribed at least after its last listener left.
const linger = time.Second

// subscription is one channel. It exists while it has listeners, and for a while after.
// Broker.mu guards it, but for its first three fields, which are constant.
type subscription struct {
	channel string
	shard   bool   // it is sharded
	slot    uint16 // if it is

	live      *connection // that it is subscribed on; nil if a gap has begun
	listeners []*Listener
	idleSince int64 // when the last listener left

	err      error // the last refusal
	refusals int   // since it was live
	retryAt  int64 // earliest next attempt after a refusal
}

// command returns the command that subscribes s.
func (s *subscription) command(b rueidis.Builder) rueidis.Completed {
	if s.shard {
		return b.Ssubscribe().Channel(s.channel).Build()
	}
	return b.Subscribe().Channel(s.channel).Build()
}

// Listener waits for messages of one channel.
type Listener struct {
	f       func() // called after a message and after each change of the subscription, with Broker.mu locked
	broker  *Broker
	channel string
}

// SubscribeFunc starts listening to a channel. f, which must neither block nor use the broker, is
// called after each message, and when the channel is subscribed, refused or lost.
func (b *Broker) SubscribeFunc(channel string, f func()) *Listener {
	s := &subscription{channel: channel}
	if b.Shards != nil && b.Shards(channel) {
		s.shard, s.slot = true, transport.Slot(channel)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.subs[channel]; known != nil {
		s = known
	} else {
		b.subs[channel] = s
		b.assignLocked(s, "")
	}
	l := &Listener{f: f, broker: b, channel: channel}
	s.listeners = append(s.listeners, l)
	return l
}

// Live reports whether the listener's channel is subscribed now.
func (l *Listener) Live() bool { return l.broker.Live(l.channel) }

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

// confirmLocked records that the channel is subscribed on c. After a gap messages may have
// been missed: its listeners look again.
func (s *subscription) confirmLocked(c *connection) {
	gap := s.live == nil
	s.live, s.err, s.refusals, s.retryAt = c, nil, 0, 0
	if gap {
		s.signalLocked()
	}
}

// lostLocked records that the channel is not subscribed on c any more.
func (s *subscription) lostLocked(c *connection) {
	if s.live == c {
		s.live = nil
		s.signalLocked()
	}
}

func (b *Broker) forgetLocked(s *subscription) { delete(b.subs, s.channel) }

// wantedLocked reports whether the channel has listeners, or had one a moment ago.
func (s *subscription) wantedLocked(now int64) bool {
	return len(s.listeners) > 0 || now-s.idleSince <= int64(linger)
}
