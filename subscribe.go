package relock

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const (
	channelsMost = 500                    // in one command, and commands in one pipeline
	refusalsMost = 3                      // in a row, without a pause between them
	refusedPause = 500 * time.Millisecond // after which a refused channel is tried again
	barredPause  = 5 * time.Second        // the same if that is not likely to pass
)

// onSubscription runs on the connection's reader: it must not block.
func (n *line) onSubscription(s rueidis.PubSubSubscription) {
	h := n.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	t := n.topics[s.Channel]
	if t == nil {
		return
	}
	switch s.Kind {
	case "subscribe", "ssubscribe":
		if t.live = t.sent; t.live {
			t.err, t.refusals, t.wait = nil, 0, 0
		}
		t.heard += turnsMost // so many may have been missed
		t.signalLocked()
	case "sunsubscribe": // the slot has moved away; nobody is told before the new node has confirmed
		if t.live {
			h.atlas.stale()
		}
		t.live, t.sent = false, false
		wake(n.kick)
	}
}

// update subscribes the channels that are new. Channels that nobody listens to any more
// are not unsubscribed: when they have become many or old, the connection is replaced by
// one without them. rueidis panics when a server that is busy with a script refuses
// UNSUBSCRIBE (it sends a PING behind it, and is refused twice).
func (n *line) update(conn rueidis.DedicatedClient) error {
	h := n.hub
	var add []*topic
	now := h.clock.now()
	h.mu.Lock()
	h.err = nil
	replaced := n.sweepLocked(now)
	for _, t := range n.topics {
		if !t.sent && now >= t.wait && !replaced {
			t.sent = true
			add = append(add, t)
		}
	}
	retired := n.retiredLocked(now)
	h.mu.Unlock()
	switch {
	case retired:
		return errRetired
	case replaced:
		return errFewer
	}

	refused, err := n.subscribe(conn, add)
	if err != nil {
		return err
	}
	if len(refused) > 0 && len(add) > 1 {
		// One by one: a command is refused whole.
		var alone []refusal
		for _, r := range refused {
			more, err := n.subscribe(conn, []*topic{r.topic})
			if err != nil {
				return err
			}
			alone = append(alone, more...)
		}
		refused = alone
	}
	for _, r := range refused {
		n.refused(r)
	}
	return nil
}

// sweepLocked forgets the channels that nobody has listened to for a while, if that is
// worth a new connection, and reports whether it has.
func (n *line) sweepLocked(now int64) bool {
	stale, oldest := 0, now
	for _, t := range n.topics {
		if len(t.listeners) == 0 {
			stale++
			oldest = min(oldest, t.idle)
		}
	}
	live := len(n.topics) - stale
	patience := staleLong
	if n.hub.cluster && live == 0 {
		patience = linger // the line will retire
	}
	if stale == 0 || stale <= staleMost+live && now-oldest <= int64(patience) {
		return false
	}
	for channel, t := range n.topics {
		if len(t.listeners) == 0 && now-t.idle > int64(linger) {
			delete(n.topics, channel)
			delete(n.hub.topics, channel)
			n.hub.many.Add(-1)
		}
	}
	return true
}

// refusal is a channel that the server has refused.
type refusal struct {
	*topic
	err *rueidis.RedisError
}

// subscribe subscribes channels, and returns those that it was refused for. A command
// takes several channels, if they are sharded those of one slot.
func (n *line) subscribe(conn rueidis.DedicatedClient, topics []*topic) (refused []refusal, err error) {
	for batch := range slices.Chunk(topics, channelsMost) {
		groups := make(map[int][]*topic)
		for _, t := range batch {
			slot := -1
			if t.sharded {
				slot = int(t.slot)
			}
			groups[slot] = append(groups[slot], t)
		}
		var cmds rueidis.Commands
		var sent [][]*topic
		for slot, group := range groups {
			channels := make([]string, len(group))
			for i, t := range group {
				channels[i] = t.channel
			}
			if slot >= 0 {
				cmds = append(cmds, conn.B().Ssubscribe().Channel(channels...).Build())
			} else {
				cmds = append(cmds, conn.B().Subscribe().Channel(channels...).Build())
			}
			sent = append(sent, group)
		}
		ctx, cancel := bounded(pingTimeout)
		results := conn.DoMulti(ctx, cmds...)
		cancel()
		for i, r := range results {
			err := r.Error()
			re, ok := rueidis.IsRedisErr(err)
			if err != nil && !ok {
				return nil, err
			}
			for _, t := range sent[i] {
				if ok {
					refused = append(refused, refusal{t, re})
				}
			}
		}
	}
	return refused, nil
}

// refused takes account of a channel that was refused. It goes to the node that has
// it, or if this one does not know, to another one; or it waits.
func (n *line) refused(r refusal) {
	h := n.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	t := r.topic
	if t.line != n || n.topics[t.channel] != t {
		return
	}
	t.err, t.sent, t.live = r.err, false, false
	t.refusals++
	t.signalLocked()
	now := h.clock.now()
	addr, moved := r.err.IsMoved()
	switch {
	case h.cluster && moved:
		t.err = nil
		if strings.HasPrefix(addr, ":") {
			addr = "" // a node that does not know its own name
		}
		if addr != "" {
			h.atlas.heard(t.slot, addr)
		}
		if t.refusals > refusalsMost || addr == n.addr {
			t.wait = now + int64(jitter(refusedPause))
		}
		delete(n.topics, t.channel)
		h.placeLocked(t, nil)
	case h.cluster && transient(r.err):
		t.wait = now + int64(jitter(refusedPause))
		delete(n.topics, t.channel)
		h.placeLocked(t, n)
	case transient(r.err):
		t.wait = now + int64(jitter(refusedPause))
	default:
		t.wait = now + int64(jitter(barredPause))
	}
}
