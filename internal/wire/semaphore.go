package wire

import (
	"strconv"

	"github.com/relock-go/relock/internal/transport"
)

// semaphore is the kind of a Semaphore.
type semaphore struct{ mutex }

func (semaphore) family() string { return "semaphore" }
func (semaphore) slots() bool    { return true }
func (semaphore) passes() bool   { return false }
func (semaphore) handsOff() bool { return false }

func (semaphore) holds() string {
	return `(function() local t = redis.call('time') ` +
		`return type(redis.pcall('zscore', KEYS[1], ':' .. ARGV[1])) == 'string' ` +
		`and tonumber(redis.call('zscore', KEYS[1], ARGV[1]) or 0) >= t[1] * 1000 + t[2] / 1000 end)()`
}

// entry returns the hold id, the limit and the grant timeout.
func (semaphore) entry(l *Ref) string {
	limit := min(int64(l.Permits), 1<<50) // exact in Lua
	return l.ID + " " + strconv.FormatInt(limit, 10) + " " + Millis(l.GrantFor)
}

func (semaphore) acquire(p *Protocol, buf *callBuffer, l *Ref, a Ask) transport.Call {
	k := l.Keys
	return transport.Call{
		Script: p.script("permit_acquire"), Keys: append(buf.keys[:0], k.Name, k.fence, k.queue),
		Args: append(buf.args[:0],
			l.ID, a.LeaseMS, l.Kind.of().entry(l), flag(a.Queue), score(a.Score), l.fenceID(), p.grants(k), p.numsub()),
	}
}

func (semaphore) reply(l *Ref, n, x, y int64) Reply {
	if n <= 0 {
		return waits(n, x, y)
	}
	if y >= 0 {
		l.Slot = int(y)
	}
	return holds(n, x)
}

func (semaphore) release(p *Protocol, buf *callBuffer, l *Ref) transport.Call {
	k := l.Keys
	return transport.Call{
		Script: p.script("permit_release"), Keys: append(buf.keys[:0], k.Name, k.fence, k.queue),
		Args: append(buf.args[:0], l.ID, l.Kind.of().entry(l), l.restMS(), p.grants(k), p.numsub()),
	}
}

func (semaphore) polling() string { return "permit_poll" }

func (semaphore) poll(p *Protocol, l *Ref, c *transport.Call) {
	k := l.Keys
	c.Keys = append(c.Keys, k.Name, k.fence, k.queue)
	c.Args = append(c.Args, l.Kind.of().entry(l), "", p.grants(k))
}

func (semaphore) renewal() string { return "permit_renew" }
