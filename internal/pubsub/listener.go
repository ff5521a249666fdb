package pubsub

import (
	"slices"
	"strings"

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
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subs[channel]
	if s == nil {
		s = &subscription{channel: channel, sharded: b.Shards != nil && b.Shards(channel)}
		if s.sharded {
			s.slot = transport.Slot(channel)
		}
		b.addLocked(s)
	}
	return b.listenLocked(s, f)
}

func (b *Broker) addLocked(s *subscription) {
	b.subs[s.channel] = s
	b.assignLocked(s, nil)
}

func (b *Broker) listenLocked(s *subscription, f func()) *Listener {
	l := &Listener{f: f, broker: b, channel: s.channel}
	s.listeners = append(s.listeners, l)
	return l
}

// maxPatterns bounds what patterns cost the server: each makes every PUBLISH some 30 ns slower.
const maxPatterns = 64

// Overhear listens to a channel, and to those whose names begin with its name, without being counted by
// PUBSUB NUMSUB: by a pattern. The listener hears nothing if the channel is sharded, since there are no patterns of
// those, or if the user may not use patterns. It is nil if there are enough patterns.
func (b *Broker) Overhear(channel string, f func()) *Listener {
	pattern := patternOf(channel)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subs[pattern]
	if s == nil {
		if b.patterns == maxPatterns {
			return nil
		}
		b.patterns++
		s = &subscription{channel: pattern, pattern: true}
		if b.noPatterns || b.Shards != nil && b.Shards(channel) {
			s.retryAt = never
		}
		b.addLocked(s)
	}
	return b.listenLocked(s, f)
}

func patternOf(channel string) string { return escape.Replace(channel) + "*" }

// escape has a pattern mean the characters of a name.
var escape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

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
	name := m.Channel
	if m.Pattern != "" {
		name = m.Pattern
	}
	if s := b.subs[name]; s != nil {
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
