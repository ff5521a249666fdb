package redistest

import (
	"strings"
	"sync"
	"sync/atomic"
)

// A drop is an order to swallow the reply of one request.
type drop struct {
	match  func(request []byte) bool
	taken  atomic.Bool   // a request has been found, and its reply is awaited
	landed chan struct{} // closed when the reply was swallowed and its connection closed
}

// A ledger pairs the replies on a connection with the requests they answer.
//
// A server answers in order, with two exceptions: a push answers nothing, and a
// subscription is answered by one push for each of its channels (or by an
// error). When the bytes do not look like RESP, as on a replication link, the
// ledger gives up and lets everything pass.
type ledger struct {
	mu      sync.Mutex // protects following
	lost    bool       // gave up
	up      scanner
	request []byte // the request in progress
	pending []awaited

	down    scanner
	midway  bool   // in the midst of a message from the server
	answers bool   // that message may answer pending[0]
	hold    bool   // that message may have to be swallowed: it is held back
	held    []byte // what of it is held back
	dropped *drop  // whose reply was swallowed
}

// awaited is a request whose reply has not come.
type awaited struct {
	confirm string // kind of the pushes that answer a subscription, else empty
	left    int    // how many of these
	drop    *drop  // the order to swallow the reply, or nil
}

// confirmed lists the commands that are answered by pushes of the same name.
var confirmed = map[string]bool{
	"subscribe": true, "psubscribe": true, "ssubscribe": true,
	"unsubscribe": true, "punsubscribe": true, "sunsubscribe": true,
}

// requests notes bytes on their way to the server. drops returns the orders in force.
func (l *ledger) requests(p []byte, drops func() []*drop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(p) > 0 && !l.lost {
		n, done, err := l.up.next(p)
		if err != nil {
			l.giveUp()
			return
		}
		l.request = append(l.request, p[:n]...)
		p = p[n:]
		if !done {
			continue
		}
		a := awaited{left: 1}
		if name := strings.ToLower(string(l.up.name)); confirmed[name] {
			a.confirm, a.left = name, max(1, l.up.size-1)
		}
		for _, d := range drops() {
			if d.match(l.request) && d.taken.CompareAndSwap(false, true) {
				a.drop = d
				break
			}
		}
		l.pending = append(l.pending, a)
		l.request = l.request[:0]
	}
}

// replies notes bytes on their way to the client. It returns those that may go
// on, and whether the rest was swallowed and the connection is to be closed.
func (l *ledger) replies(p []byte) (pass []byte, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pass = make([]byte, 0, len(p))
	for len(p) > 0 && !l.lost {
		if !l.midway {
			l.midway = true
			l.answers = len(l.pending) > 0
			l.hold = l.answers && l.pending[0].drop != nil
		}
		n, done, err := l.down.next(p)
		if err != nil {
			l.giveUp()
			break
		}
		if l.hold {
			l.held = append(l.held, p[:n]...)
		} else {
			pass = append(pass, p[:n]...)
		}
		p = p[n:]
		if !done {
			continue
		}
		l.midway = false
		if l.dropped = l.settle(); l.dropped != nil {
			return pass, true
		}
		pass = l.release(pass)
	}
	if l.lost {
		pass = append(l.release(pass), p...)
	}
	return pass, false
}

// settle takes the message that just came off the pending requests, and returns
// the order to swallow it, or nil. The caller holds mu.
func (l *ledger) settle() *drop {
	if !l.answers {
		return nil
	}
	first := &l.pending[0]
	if first.confirm != "" && (l.down.kind == '>' || l.down.kind == '*') {
		if string(l.down.name) != first.confirm {
			return nil
		}
		if first.left--; first.left > 0 {
			return nil
		}
	} else if l.down.kind == '>' {
		return nil
	}
	d := first.drop
	l.pending = l.pending[1:]
	return d
}

// release appends what was held back. The caller holds mu.
func (l *ledger) release(pass []byte) []byte {
	pass = append(pass, l.held...)
	l.held = l.held[:0]
	return pass
}

// giveUp lets everything pass from here on. The caller holds mu.
func (l *ledger) giveUp() {
	l.lost = true
	l.putBack()
}

// putBack puts orders that were not carried out in force again. The caller holds mu.
func (l *ledger) putBack() {
	for _, a := range l.pending {
		if a.drop != nil {
			a.drop.taken.Store(false)
		}
	}
	l.pending = nil
}

// close ends the ledger of a closed connection, and returns the order that was
// carried out on it, or nil.
func (l *ledger) close() *drop {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.putBack()
	return l.dropped
}
