package wire

import "github.com/relock-go/relock/internal/transport"

// mutex is the kind of a Mutex. Others that are exclusive build on it.
type mutex struct{}

func (mutex) family() string { return "mutex" }
func (mutex) suffix() string { return "" }
func (mutex) joins() bool    { return false }
func (mutex) slots() bool    { return false }
func (mutex) passes() bool   { return true }
func (mutex) handsOff() bool { return true }

func (mutex) keys(name string) Keys { return newKeys(name, prefixChannel, prefixQueue) }

func (mutex) grantFor(l *Ref) string {
	if l.GrantFor == GrantMost {
		return "5000"
	}
	return Millis(l.GrantFor)
}

func (mutex) acquire(p *Protocol, buf *callBuffer, l *Ref, a Ask) transport.Call {
	k := l.Keys
	return transport.Call{
		Script: p.script("acquire"), Keys: append(buf[:0:4], k.Name, k.fence, k.aux),
		Args: append(buf[4:4], l.ID, a.LeaseMS, flag(a.Queue), grantMS(l), k.Prefix),
	}
}

func (mutex) granted(_ *Ref, n, _ int64) Reply {
	if n > 0 {
		return Reply{Granted: true, Token: n}
	}
	return waits(n)
}

func (mutex) release(p *Protocol, buf *callBuffer, l *Ref) transport.Call {
	k := l.Keys
	c := transport.Call{
		Script: p.script("release"), Keys: append(buf[:0:4], k.Name, k.aux, k.fence),
		Args: append(buf[4:4], l.ID, k.Channel, grantMS(l), k.Prefix),
	}
	if l.rests() {
		c.Args = append(c.Args, l.Rest.ID, Millis(l.Rest.For))
	}
	return c
}

func (mutex) renewal() string { return "renew" }

func (mutex) renew(l *Ref, c *transport.Call) {
	c.Keys, c.Args = append(c.Keys, l.Keys.Name), append(c.Args, l.ID)
}
