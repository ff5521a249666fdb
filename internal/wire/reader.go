package wire

import "github.com/relock-go/relock/internal/transport"

// reader is the kind of the read side of an RWMutex.
type reader struct{ writer }

func (reader) suffix() string { return "" }
func (reader) joins() bool    { return true }

func (reader) acquire(p *Protocol, buf *callBuffer, l *Ref, a Ask) transport.Call {
	k := l.Keys
	return transport.Call{
		Script: p.script("read_acquire"), Keys: append(buf.keys[:0], k.Name, k.fence, k.queue, k.readers, k.timeout(l.ID)),
		Args: append(buf.args[:0],
			l.ID, a.LeaseMS, l.Kind.of().entry(l), flag(a.Queue), score(a.Score), a.Writer, a.Join,
			k.Channel, p.grants(k), p.numsub(), k.Prefix),
	}
}

func (reader) reply(_ *Ref, n, x, y int64) Reply {
	if n <= 0 {
		return waits(n, x, y)
	}
	r := holds(0, x)
	if r.Read = ReadReply(n); n == 2 { // in a message
		r.Read, r.Wanted = ReadHeld, true
	}
	return r
}

func (reader) release(p *Protocol, buf *callBuffer, l *Ref) transport.Call {
	c := writer{}.release(p, buf, l)
	c.Script, c.Keys = p.script("read_release"), append(c.Keys, l.Keys.timeout(l.ID))
	return c
}

func (reader) polling() string { return "read_poll" }

func (reader) poll(p *Protocol, l *Ref, c *transport.Call) {
	k := l.Keys
	c.Keys = append(c.Keys, k.Name, k.fence, k.queue, k.readers, k.timeout(l.ID))
	c.Args = append(c.Args, l.Kind.of().entry(l), k.Channel, p.grants(k), k.Prefix)
}

func (reader) renewal() string { return "read_renew" }

func (reader) renew(l *Ref, c *transport.Call) {
	c.Keys, c.Args = append(c.Keys, l.Keys.Name, l.Keys.timeout(l.ID)), append(c.Args, l.ID)
}
