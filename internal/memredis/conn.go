package memredis

import (
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
)

// A link is a connection between a process and the server. The process's mutex guards it.
type link struct {
	p        *Process
	up, down stream
	client   end
	server   end
	broken   bool // both ends know

	// For lost replies.
	awaited []awaited // the server is to answer these, oldest first
	losing  int       // the replies to how many of these get lost
	lost    bool      // a reply was lost: the connection breaks, and no other reply is delivered
}

// awaited is a command that the server is to answer.
type awaited struct {
	lose   bool   // the reply gets lost
	script []byte // the command, if it runs a script
}

// An end is the client's or the server's end of a link.
type end struct {
	l        *link
	in, out  *stream
	closed   bool
	deadline time.Time // the process's mutex guards it as well
}

func newLink(p *Process) *link {
	l := &link{p: p, up: newStream(), down: newStream()}
	l.client = end{l: l, in: &l.down, out: &l.up}
	l.server = end{l: l, in: &l.up, out: &l.down}
	return l
}

// Read returns what has arrived, at most one message.
func (e *end) Read(b []byte) (int, error) {
	for {
		n, wait, err := e.take(b)
		if n > 0 || err != nil || len(b) == 0 {
			if e == &e.l.server && n > 0 {
				e.l.p.s.tick()
			}
			return n, err
		}
		if wait < 0 {
			<-e.in.wake
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-e.in.wake:
		}
		timer.Stop()
	}
}

// take reads what has arrived. If nothing has, it returns how long to wait for a change, or -1
// if only a signal announces one.
func (e *end) take(b []byte) (n int, wait time.Duration, err error) {
	e.l.p.mu.Lock()
	defer e.l.p.mu.Unlock()
	now, in := time.Now(), e.in
	overdue := !e.deadline.IsZero() && !now.Before(e.deadline)
	switch {
	case e.closed:
		return 0, 0, net.ErrClosed
	case overdue:
		return 0, 0, os.ErrDeadlineExceeded
	case e.l.broken:
		return 0, 0, syscall.ECONNRESET
	case in.ended:
		return 0, 0, io.EOF
	}
	if len(in.rest) == 0 && len(in.queue) > 0 && !e.heldLocked() && !now.Before(in.queue[0].due) {
		in.rest = in.queue[0].data
		in.queue = slices.Delete(in.queue, 0, 1)
		if in.rest == nil {
			in.ended = true
			return 0, 0, io.EOF
		}
		if e == &e.l.server {
			e.l.deliveredLocked(in.rest)
		}
	}
	if len(in.rest) > 0 {
		n = copy(b, in.rest)
		in.rest = in.rest[n:]
		return n, 0, nil
	}
	wait = -1
	if len(in.queue) > 0 && !e.heldLocked() {
		wait = in.queue[0].due.Sub(now)
	}
	if left := e.deadline.Sub(now); !e.deadline.IsZero() && (wait < 0 || left < wait) {
		wait = left
	}
	return 0, wait, nil
}

// heldLocked reports whether nothing arrives at e whatever the time.
func (e *end) heldLocked() bool {
	l := e.l
	if e == &l.server {
		// The connection is about to break, and no more commands are to be executed on it.
		return l.p.cuts[Up] > 0 || (l.lost || l.losing > 0) && l.p.drops == 0
	}
	return l.p.cuts[Down] > 0
}

// Write puts messages under way.
func (e *end) Write(b []byte) (int, error) {
	p := e.l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.closed:
		return 0, net.ErrClosed
	case !e.deadline.IsZero() && !time.Now().Before(e.deadline):
		return 0, os.ErrDeadlineExceeded
	case e.l.broken:
		return 0, syscall.ECONNRESET
	case e.in.ended:
		return 0, syscall.EPIPE
	}
	for _, m := range e.out.messages(b) {
		if e == &e.l.server {
			m = e.l.answeredLocked(m)
		}
		if m != nil && !e.other().closed {
			e.out.send(m, p.delay)
		}
	}
	return len(b), nil
}

func (e *end) other() *end {
	if e == &e.l.client {
		return &e.l.server
	}
	return &e.l.client
}

// Close ends the connection for e now, and for the other end once it has read what is under way.
func (e *end) Close() error {
	p := e.l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	e.closeLocked()
	return nil
}

func (e *end) closeLocked() {
	if e.closed {
		return
	}
	e.closed = true
	e.in.signal()
	e.in.queue, e.in.rest = nil, nil
	e.out.send(nil, e.l.p.delay)
	if e.other().closed {
		delete(e.l.p.links, e.l)
	}
}

// SetDeadline ends reads and writes at t.
func (e *end) SetDeadline(t time.Time) error {
	e.l.p.mu.Lock()
	defer e.l.p.mu.Unlock()
	e.deadline = t
	e.in.signal()
	return nil
}

// SetReadDeadline is SetDeadline: a write never waits.
func (e *end) SetReadDeadline(t time.Time) error { return e.SetDeadline(t) }

// SetWriteDeadline does nothing: a write never waits.
func (e *end) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr returns an address that leads nowhere.
func (e *end) LocalAddr() net.Addr { return addr{} }

// RemoteAddr returns an address that leads nowhere.
func (e *end) RemoteAddr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return Addr }
