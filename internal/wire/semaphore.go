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

// grantFor returns the limit, and the grant timeout behind it; see lua/lib/permits.lua.
func (semaphore) grantFor(l *Ref) string {
	return strconv.FormatInt(min(int64(l.Permits), 1<<50), 10) + " " + Millis(l.GrantFor) // exact in Lua
}

func (semaphore) acquire(p *Protocol, buf *callBuffer, l *Ref, a Ask) transport.Call {
	k := l.Keys
	return transport.Call{
		Script: p.script("permit"), Keys: append(buf[:0:4], k.Name, k.fence, k.aux),
		Args: append(buf[4:4], l.ID, a.LeaseMS, flag(a.Queue), grantMS(l)),
	}
}

func (semaphore) granted(l *Ref, n, slot int64) Reply {
	if slot >= 0 {
		l.Slot = int(slot)
	}
	return mutex{}.granted(l, n, slot)
}

func (semaphore) release(p *Protocol, buf *callBuffer, l *Ref) transport.Call {
	k := l.Keys
	c := transport.Call{
		Script: p.script("release_permit"), Keys: append(buf[:0:4], k.Name, k.aux, k.fence),
		Args: append(buf[4:4], l.ID, grantMS(l)),
	}
	if l.rests() {
		c.Args = append(c.Args, l.Rest.ID, Millis(l.Rest.For))
	}
	return c
}

func (semaphore) renew(l *Ref, c *transport.Call) {
	c.Keys, c.Args = append(c.Keys, l.Keys.Name), append(c.Args, ":"+l.ID)
}
