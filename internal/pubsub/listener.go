package pubsub

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
)

// linger is how long a channel stays subscribed at least after its last listener left.
const linger = time.Second

// kind says how a channel is subscribed.
type kind int

const (
	plain kind = iota
	shard
	pattern
)

// subscription is one channel. It exists while it has listeners, and for a while after.
// Broker.mu guards it, but for its first three fields, which are constant.
type subscription struct {
	channel string // or pattern
	kind    kind
	slot    uint16 // of a shard

	live      *connection // that it is subscribed on; nil if a gap has begun
	listeners []*Listener
	idleSince int64 // when the last listener left

	err      error // the last refusal
	refusals int   // since it was live
	retryAt  int64 // earliest next attempt after a refusal
}

// command returns the command that subscribes s.
func (s *subscription) command(b rueidis.Builder) rueidis.Completed {
	switch s.kind {
	case shard:
		return b.Ssubscribe().Channel(s.channel).Build()
	case pattern:
		return b.Psubscribe().Pattern(s.channel).Build()
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
		s.kind, s.slot = shard, transport.Slot(channel)
	}
	return b.listen(s, f)
}

// Overhear listens to a channel, and to those whose names begin with its name, without being
// counted by PUBSUB NUMSUB: by a pattern. The listener hears nothing where channels are sharded,
// since there are no patterns of those, or if the user may not use patterns. It is nil if there are
// enough patterns.
func (b *Broker) Overhear(channel string, f func()) *Listener {
	return b.listen(&subscription{channel: patternOf(channel), kind: pattern}, f)
}

// maxPatterns bounds what patterns cost the server: each makes every PUBLISH some 30 ns slower.
const maxPatterns = 64

// listen adds a listener to the channel of s, which is the subscription if there is none yet.
func (b *Broker) listen(s *subscription, f func()) *Listener {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.subs[s.channel]; known != nil {
		s = known
	} else {
		if s.kind == pattern {
			if b.patterns == maxPatterns {
				return nil
			}
			b.patterns++
		}
		b.subs[s.channel] = s
		b.assignLocked(s, "")
	}
	l := &Listener{f: f, broker: b, channel: s.channel}
	s.listeners = append(s.listeners, l)
	return l
}

func patternOf(channel string) string { return escape.Replace(channel) + "*" }

// escape has a pattern mean the characters of a name.
var escape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

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

func (b *Broker) forgetLocked(s *subscription) {
	if s.kind == pattern {
		b.patterns--
	}
	delete(b.subs, s.channel)
}

// wantedLocked reports whether the channel has listeners, or had one a moment ago.
func (s *subscription) wantedLocked(now int64) bool {
	return len(s.listeners) > 0 || now-s.idleSince <= int64(linger)
}
