package wire

import (
	"strconv"

	"github.com/relock-go/relock/internal/transport"
)

// mutex is the kind of a Mutex. Others that are exclusive build on it.
type mutex struct{}

func (mutex) family() string { return "mutex" }
func (mutex) suffix() string { return "" }
func (mutex) joins() bool    { return false }
func (mutex) slots() bool    { return false }
func (mutex) passes() bool   { return true }
func (mutex) handsOff() bool { return true }
func (mutex) holds() string  { return `redis.pcall('hget', KEYS[1], ARGV[1]) == '1'` }

func (mutex) keys(name string) Keys { return newKeys(name, prefixChannel, prefixQueue) }

// entry returns the hold id, and behind a space the grant timeout, unless it is GrantMost.
func (mutex) entry(l *Ref) string {
	if l.GrantFor == GrantMost {
		return l.ID
	}
	return l.ID + " " + Millis(l.GrantFor)
}

// queued returns the entry for a call, if it is to be queued.
func queued(l *Ref, a Ask) string {
	if !a.Queue {
		return ""
	}
	return l.Kind.of().entry(l)
}

func (mutex) acquire(p *Protocol, buf *callBuffer, l *Ref, a Ask) transport.Call {
	k := l.Keys
	return transport.Call{
		Script: p.script("mutex_acquire"), Keys: append(buf.keys[:0], k.Name, k.fence, k.queue),
		Args: append(buf.args[:0],
			l.ID, a.LeaseMS, queued(l, a), score(a.Score), l.fenceID(), a.Note, k.Channel, p.grants(k), p.numsub()),
	}
}

func (mutex) reply(_ *Ref, n, x, y int64) Reply {
	if n <= 0 {
		return waits(n, x, y)
	}
	r := holds(n, x)
	r.Again = y == 2
	return r
}

func (mutex) release(p *Protocol, buf *callBuffer, l *Ref) transport.Call {
	k := l.Keys
	return transport.Call{
		Script: p.script("mutex_release"), Keys: append(buf.keys[:0], k.Name, k.fence, k.queue),
		Args: append(buf.args[:0], l.ID, l.Kind.of().entry(l), l.restMS(), k.Channel, p.grants(k), p.numsub()),
	}
}

func (mutex) polling() string { return "mutex_poll" }

func (mutex) poll(p *Protocol, l *Ref, c *transport.Call) {
	k := l.Keys
	c.Keys = append(c.Keys, k.Name, k.fence, k.queue)
	c.Args = append(c.Args, l.Kind.of().entry(l), k.Channel, p.grants(k))
}

func (mutex) renewal() string { return "renew" }

func (mutex) renew(l *Ref, c *transport.Call) {
	c.Keys, c.Args = append(c.Keys, l.Keys.Name), append(c.Args, l.ID)
}

// restMS returns for how long a lock stays taken after its release, as an argument.
func (l *Ref) restMS() string { return strconv.FormatInt(max(l.Rest.Milliseconds(), 0), 10) }
