package wire

import "github.com/relock-go/relock/internal/transport"

// writer is the kind of the write side of an RWMutex.
type writer struct{ mutex }

func (writer) family() string { return "rw" }
func (writer) suffix() string { return writeSuffix }
func (writer) handsOff() bool { return false }

const writeSuffix = ":write"

// keys returns the names for both sides.
func (writer) keys(name string) Keys {
	keys := newKeys(name, prefixRW, prefixRWQueue)
	keys.readers = queueOf(prefixReadQueue, name)
	keys.Prefix = tag(name) + ":"
	return keys
}

func (writer) acquire(p *Protocol, buf *callBuffer, l *Ref, a Ask) transport.Call {
	c := mutex{}.acquire(p, buf, l, a)
	c.Script, c.Keys, c.Args = p.script("write_acquire"), append(c.Keys, l.Keys.readers), append(c.Args, l.Keys.Prefix)
	return c
}

func (writer) release(p *Protocol, buf *callBuffer, l *Ref) transport.Call {
	c := mutex{}.release(p, buf, l)
	c.Script, c.Keys, c.Args = p.script("write_release"), append(c.Keys, l.Keys.readers), append(c.Args, l.Keys.Prefix)
	return c
}

func (writer) polling() string { return "write_poll" }

func (writer) poll(p *Protocol, l *Ref, c *transport.Call) {
	mutex{}.poll(p, l, c)
	c.Keys, c.Args = append(c.Keys, l.Keys.readers), append(c.Args, l.Keys.Prefix)
}
