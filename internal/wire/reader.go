package wire

import "github.com/relock-go/relock/internal/transport"

// reader is the kind of the read side of an RWMutex.
type reader struct{ writer }

func (reader) suffix() string { return "" }
func (reader) joins() bool    { return true }

func (reader) acquire(p *Protocol, buf *callBuffer, l *Ref, a Ask) transport.Call {
	k := l.Keys
	return transport.Call{
		Script: p.script("read"), Keys: append(buf[:0:4], k.Name, k.aux, k.timeout(l.ID), k.fence),
		Args: append(buf[4:4], l.ID, a.LeaseMS, a.Writer, a.Join, flag(a.Queue), k.Prefix, grantMS(l)),
	}
}

func (reader) granted(_ *Ref, n, _ int64) Reply {
	if n > 0 {
		return Reply{Granted: true, Read: ReadReply(n)}
	}
	return waits(n)
}

func (reader) release(p *Protocol, buf *callBuffer, l *Ref) transport.Call {
	k := l.Keys
	c := transport.Call{
		Script: p.script("release_read"), Keys: append(buf[:0:4], k.Name, k.timeout(l.ID), k.aux, k.fence),
		Args: append(buf[4:4], l.ID, k.Channel, k.Prefix, grantMS(l)),
	}
	if l.rests() {
		c.Args = append(c.Args, l.Rest.ID, Millis(l.Rest.For))
	}
	return c
}

func (reader) renewal() string { return "renew_read" }

func (reader) renew(l *Ref, c *transport.Call) {
	c.Keys, c.Args = append(c.Keys, l.Keys.Name, l.Keys.timeout(l.ID)), append(c.Args, l.ID)
}
