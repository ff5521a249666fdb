package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// pieces is how many reads one direction of a link holds before it stops
// reading. It bounds how much a long delay or a stall can take in.
const pieces = 4096

// A link is one connection through a proxy. Each direction has a goroutine that
// reads pieces and stamps them with the time they are due, and one that writes
// them in order when they are: any number may be under way, so a delay costs
// time and no bandwidth.
type link struct {
	p              *Proxy
	client, server net.Conn
	ledger         ledger

	// guarded by Proxy.mu
	lost      bool // bytes were swallowed
	forgotten bool // all that follow are
	held      bool // all that follow wait

	closeOnce sync.Once
	closed    chan struct{} // closed first of all when the link is to end
	done      chan struct{} // closed when nothing of the link runs any more
}

// A piece is what one read returned, or the end of the stream.
type piece struct {
	due  time.Time
	data []byte
	end  bool
}

// run carries bytes until either side ends or the link is closed.
func (l *link) run() {
	up, down := make(chan piece, pieces), make(chan piece, pieces)
	requests := func(p []byte) ([]byte, bool) {
		l.ledger.requests(p, l.p.orders)
		return append([]byte(nil), p...), false
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.read(l.client, up, requests) })
	wg.Go(func() { l.read(l.server, down, l.ledger.replies) })
	wg.Go(func() { l.write(l.server, up, &l.p.up) })
	wg.Go(func() { l.write(l.client, down, &l.p.down) })
	wg.Wait()
	l.p.forget(l)
	close(l.done)
}

// read passes what comes from a side through see, which may end the stream, and
// queues it for the other side.
func (l *link) read(from net.Conn, queue chan<- piece, see func([]byte) ([]byte, bool)) {
	buf := make([]byte, 32<<10)
	for ended := false; !ended; {
		n, err := from.Read(buf)
		ended = err != nil
		if n > 0 && !l.p.swallow(l, n) {
			data, cut := see(buf[:n])
			ended = ended || cut
			l.put(queue, piece{data: data})
		}
	}
	l.put(queue, piece{end: true})
}

func (l *link) put(queue chan<- piece, p piece) {
	p.due = time.Now().Add(l.p.latency())
	select {
	case queue <- p:
	case <-l.closed:
	}
}

// write writes pieces to a side when they are due, in order. It closes the link
// at the end of the stream.
func (l *link) write(to net.Conn, queue <-chan piece, written *atomic.Int64) {
	defer l.close()
	for {
		var p piece
		select {
		case p = <-queue:
		case <-l.closed:
			return
		}
		if !l.sleep(time.Until(p.due)) {
			return
		}
		pass, ok := l.p.gate(l, p)
		if !ok || pass && p.end {
			return
		}
		if pass {
			n, err := to.Write(p.data)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
}

// sleep blocks for d, and reports whether the link is still open.
func (l *link) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.closed:
		return false
	}
}

// close ends both sides. It does not wait.
func (l *link) close() {
	l.closeOnce.Do(func() {
		close(l.closed)
		l.client.Close()
		l.server.Close()
	})
}
