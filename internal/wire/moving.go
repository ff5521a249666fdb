package wire

import (
	"context"
	"strings"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
)

// A slot may stay half moved for longer than a lease. Meanwhile the node refuses scripts with
// several keys, since it cannot tell keys that have moved from keys that do not exist. An
// acquisition may wait for the end of that, a release may not.

// moving is a hold, or a wait, to be ended in a slot that is being moved.
type moving struct {
	*Ref
	began bool // its release may have been executed in part
}

// halfMoved reports whether a release was refused because keys of its slot are on another
// node, and whether it may have been executed in part: to the node, a key that the script has
// emptied looks like one that has moved.
func halfMoved(err error) (refused, began bool) {
	switch code, ok := transport.Code(err); {
	case code == "TRYAGAIN":
		return true, false
	case ok && strings.Contains(err.Error(), "access a non local key"):
		return true, true
	}
	return false, false
}

// releaseMoving ends holds whose slots are being moved, key by key. For each it returns what
// Release does. Waiters are notified on the node that still owns the slot, where they listen.
func (p *Protocol) releaseMoving(ctx context.Context, ms []moving) (told []int64, errs []error) {
	var cmds rueidis.Commands
	places := make([]int, len(ms)) // index in cmds of each one's first command
	calls := make([]transport.Call, len(ms))
	for i, m := range ms {
		places[i] = len(cmds)
		cmds = append(cmds, p.besides(m.Ref)...)
		calls[i] = transport.Call{Script: p.set().releaseMoving, Keys: []string{m.Keys.Name}, Args: []string{m.ID}}
	}
	var besides []rueidis.RedisResult
	if len(cmds) > 0 {
		besides = p.Pipelined(ctx, cmds)
	}
	told, errs = make([]int64, len(ms)), make([]error, len(ms))
	var wakes rueidis.Commands
	var woken []int // index in ms for each of wakes
	for i, r := range p.EvalAll(ctx, calls) {
		m := ms[i]
		told[i], errs[i] = r.AsInt64()
		switch {
		case errs[i] != nil || told[i] == 0:
		case told[i] > 0 || m.began:
			told[i] = 0
			for _, message := range wakeUp(m.Kind) {
				wakes = append(wakes, p.message(m.Keys, message))
				woken = append(woken, i)
			}
		case m.Kind == Plain || m.Kind == Fair:
			var left int64
			left, errs[i] = besides[places[i]].AsInt64()
			told[i] = left - 1
		}
	}
	if len(wakes) > 0 {
		for i, r := range p.Pipelined(ctx, wakes) {
			n, _ := r.AsInt64() // on failure waiters look again by themselves
			told[woken[i]] = max(told[woken[i]], n)
		}
	}
	return told, errs
}

// besides returns the commands that remove what a hold, or a wait, has in keys other than the
// lock. The place in a queue must go before the hold: a place may become a hold, but no hold
// becomes a place.
func (p *Protocol) besides(l *Ref) []rueidis.Completed {
	k := l.Keys
	id := []string{l.ID}
	cmds := []rueidis.Completed{p.Command([]string{k.aux}, []string{place(l)}, "ZREM")}
	if l.Kind == Read {
		cmds = append(cmds, p.Command([]string{k.timeout(l.ID)}, nil, "DEL"), p.Command([]string{k.readers()}, id, "ZREM"))
	}
	return cmds
}

// wakeUp returns the messages by which a release wakes waiters.
func wakeUp(k Kind) []string {
	if k == Write {
		return []string{"1", ForRedisson}
	}
	return []string{"0"}
}

// message returns the command that publishes on a lock's channel.
func (p *Protocol) message(k *Keys, message string) rueidis.Completed {
	if p.PubSub == Sharded {
		return p.Client.B().Spublish().Channel(k.Channel).Message(message).Build()
	}
	return p.Client.B().Publish().Channel(k.Channel).Message(message).Build().SetSlot(k.Name)
}
