package pubsub

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

const (
	maxChannels    = 500                    // in one command, and commands in one pipeline
	maxRefusals    = 3                      // of one channel in a row without a pause
	retryRefused   = 500 * time.Millisecond // before a refused channel is tried again
	retryPermanent = 5 * time.Second        // the same if the refusal is not transient
	never          = math.MaxInt64          // a time
)

// subscribeUnsent subscribes the channels that are new. Channels without listeners are never
// unsubscribed: when they have become many or old, the link is replaced by one without them.
// rueidis panics when a server that is busy with a script refuses UNSUBSCRIBE (it sends a
// PING behind it, and both are refused).
func (c *connection) subscribeUnsent(l *link) error {
	b := c.broker
	var added []*subscription
	now := b.Clock.Now()
	b.mu.Lock()
	b.err = nil
	for s := range c.unsent {
		switch {
		case c.subs[s.channel] != s || s.sent:
			delete(c.unsent, s)
		case now >= s.retryAt:
			delete(c.unsent, s)
			s.sent = true
			added = append(added, s)
		}
	}
	b.mu.Unlock()

	refused, err := c.subscribe(l.conn, added)
	if err == nil && len(refused) > 0 && len(added) > 1 {
		refused, err = c.subscribeSingly(l.conn, refused)
	}
	if err != nil {
		c.markUnsent(added)
		return err
	}
	for _, r := range refused {
		c.handleRefusal(r)
	}
	return nil
}

// subscribeSingly sends one command for each refused channel: the server refuses a command
// as a whole.
func (c *connection) subscribeSingly(conn rueidis.DedicatedClient, refused []refusal) (still []refusal, err error) {
	for _, r := range refused {
		again, err := c.subscribe(conn, []*subscription{r.subscription})
		if err != nil {
			return nil, err
		}
		still = append(still, again...)
	}
	return still, nil
}

// markUnsent queues channels again, of which it is unknown whether they are subscribed.
func (c *connection) markUnsent(subs []*subscription) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	for _, s := range subs {
		if s.conn == c {
			s.live = false
			s.resubscribeLocked()
		}
	}
}

// refusal is a channel that the server refused to subscribe.
type refusal struct {
	*subscription
	err *rueidis.RedisError
}

// subscribe subscribes channels and returns those that were refused. One command takes
// several channels, of sharded ones those of one slot.
func (c *connection) subscribe(conn rueidis.DedicatedClient, subs []*subscription) (refused []refusal, err error) {
	for batch := range slices.Chunk(subs, maxChannels) {
		groups := make(map[int][]*subscription)
		for _, s := range batch {
			slot := -1
			switch {
			case s.sharded:
				slot = int(s.slot)
			case s.pattern:
				slot = -2
			}
			groups[slot] = append(groups[slot], s)
		}
		var cmds rueidis.Commands
		var sent [][]*subscription
		for slot, group := range groups {
			channels := make([]string, len(group))
			for i, s := range group {
				channels[i] = s.channel
			}
			switch slot {
			case -1:
				cmds = append(cmds, conn.B().Subscribe().Channel(channels...).Build())
			case -2:
				cmds = append(cmds, conn.B().Psubscribe().Pattern(channels...).Build())
			default:
				cmds = append(cmds, conn.B().Ssubscribe().Channel(channels...).Build())
			}
			sent = append(sent, group)
		}
		ctx, cancel := c.broker.bounded()
		results := conn.DoMulti(ctx, cmds...)
		cancel()
		for i, result := range results {
			err := result.Error()
			re, ok := rueidis.IsRedisErr(err)
			if err != nil && !ok {
				return nil, err
			}
			for _, s := range sent[i] {
				if ok {
					refused = append(refused, refusal{s, re})
				}
			}
		}
	}
	return refused, nil
}

// handleRefusal moves a refused channel to the node that has it, or to another one if this
// one does not know; or delays the next attempt.
func (c *connection) handleRefusal(r refusal) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	s := r.subscription
	if s.conn != c || c.subs[s.channel] != s {
		return
	}
	s.err, s.live = r.err, false
	s.resubscribeLocked()
	s.refusals++
	s.signalLocked()
	now := b.Clock.Now()
	addr, moved := r.err.IsMoved()
	switch {
	case b.Slots != nil && moved:
		s.err = nil
		if strings.HasPrefix(addr, ":") {
			addr = "" // from a node that does not know its own name
		}
		if addr != "" {
			b.Slots.Moved(s.slot, addr)
		}
		if s.refusals > maxRefusals || addr == c.addr {
			s.retryAt = now + int64(timing.Jitter(retryRefused))
		}
		delete(c.subs, s.channel)
		b.assignLocked(s, nil)
	case b.Slots != nil && transport.Transient(r.err):
		s.retryAt = now + int64(timing.Jitter(retryRefused))
		delete(c.subs, s.channel)
		b.assignLocked(s, c)
	case transport.Transient(r.err):
		s.retryAt = now + int64(timing.Jitter(retryRefused))
	case s.pattern:
		s.retryAt, b.noPatterns = never, true
	default:
		s.retryAt = now + int64(timing.Jitter(retryPermanent))
	}
}
