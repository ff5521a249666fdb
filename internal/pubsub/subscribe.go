package pubsub

import (
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

const (
	maxChannels  = 500         // in one pipeline
	retryRefused = time.Second // before a refused channel is tried again
)

// subscribeNew subscribes the channels that the server has not been asked for yet.
func (c *connection) subscribeNew() error {
	for {
		some := c.missing()
		if len(some) == 0 {
			return nil
		}
		cmds := make(rueidis.Commands, len(some))
		for i, s := range some {
			cmds[i] = s.command(c.conn.B())
		}
		ctx, cancel := timing.Within(c.broker.Ctx, transport.AnswerMost)
		results := c.conn.DoMulti(ctx, cmds...)
		cancel()
		for i, s := range some {
			if err := c.subscribed(s, results[i].Error()); err != nil {
				return transport.Silence(err)
			}
		}
	}
}

// missing returns the channels of the next request to the server.
func (c *connection) missing() (some []*subscription) {
	b := c.broker
	now := b.Clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range c.subs {
		_, asked := c.asked[s]
		if !asked && now >= s.retryAt && len(some) < maxChannels {
			c.asked[s] = struct{}{}
			some = append(some, s)
		}
	}
	return some
}

// subscribed records the result of the subscription of a channel. It returns err unless the
// server has answered.
func (c *connection) subscribed(s *subscription, err error) error {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	refusal, refused := rueidis.IsRedisErr(err)
	_, asked := c.asked[s] // else the server has ended the subscription meanwhile
	switch {
	case err == nil && asked:
		s.confirmLocked(c)
	case refused:
		delete(c.asked, s)
		c.refusedLocked(s, refusal)
	case err != nil:
		return err
	}
	return nil
}

// refusedLocked moves a refused channel to the node that has it, or to another one if this
// one does not know; or delays the next attempt.
func (c *connection) refusedLocked(s *subscription, refusal *rueidis.RedisError) {
	b := c.broker
	s.err, s.live = refusal, nil
	s.refusals++
	pause, inCluster := retryRefused, b.Conn.Slots != nil
	addr, moved := refusal.IsMoved()
	switch {
	case moved && inCluster:
		s.err = nil
		if !strings.HasPrefix(addr, ":") { // from a node that knows its own name
			b.Conn.Slots.Moved(s.slot, addr)
		}
		if s.refusals == 1 {
			pause = 0
		}
		c.moveLocked(s, "")
	case transport.Transient(refusal) && inCluster:
		c.moveLocked(s, c.addr)
	}
	s.retryAt = b.Clock.Now() + int64(timing.Jitter(pause))
	s.signalLocked()
}

func (c *connection) moveLocked(s *subscription, exclude string) {
	delete(c.subs, s.channel)
	c.broker.assignLocked(s, exclude)
}
