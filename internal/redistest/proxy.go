package redistest

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const dialTimeout = 5 * time.Second // of a proxy to its target

// A Proxy is a TCP proxy in this process, on a port of 127.0.0.1, that damages
// the connections to one server on purpose. Undamaged, it passes any protocol.
//
// It is made by [NewProxy] or [OpenProxy], and is safe for concurrent use.
// Conditions apply to the connections that exist and to those that come, both
// ways, and to bytes that are under way; they may be combined.
type Proxy struct {
	listener net.Listener
	serving  sync.WaitGroup // the accept loop and one goroutine for each connection

	up, down, dropped, accepted atomic.Int64

	mu        sync.Mutex // protects following
	target    string     // of new connections
	delay     time.Duration
	stalled   bool
	blackhole bool
	refuse    bool
	closed    bool
	changed   chan struct{}  // closed and replaced when stalled or blackhole changes
	links     map[*link]bool // the connections that exist
	drops     []*drop        // the orders of DropReplies that have not landed
}

// NewProxy starts a proxy to a server, given as host and port, and closes it
// when the test ends. It stops the test with t.Fatal when it cannot listen.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := OpenProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// OpenProxy starts a proxy to a server, given as host and port. The server need
// not be there yet: a connection that cannot reach it is closed. The caller must
// [Proxy.Close] the proxy.
func OpenProxy(target string) (*Proxy, error) {
	l, err := listen()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		target:   target,
		listener: l,
		changed:  make(chan struct{}),
		links:    make(map[*link]bool),
	}
	p.serving.Go(p.accept)
	return p, nil
}

// Addr returns the host and port that clients dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close closes every connection, stops listening, and returns when nothing of
// the proxy runs any more. It is idempotent.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	// The only error is that it is closed already.
	_ = p.listener.Close()
	p.Cut()
	p.serving.Wait()
}

// Delay makes every byte arrive d later, each way, in order. It is latency, not
// a throttle: what is sent close together arrives close together. Bytes that are
// under way keep the delay they were sent with.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Stall holds back what is to arrive on either side; when it is lifted all of it
// is delivered, in order. Connections are made and ended meanwhile without the
// other side noticing.
func (p *Proxy) Stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = on
	p.broadcastLocked()
}

// Blackhole swallows what is sent, and the ends of connections too, and keeps
// every connection open. When it is lifted, the connections that lost something
// are closed, since their streams have holes: Blackhole(false) returns when they
// are. The others go on.
func (p *Proxy) Blackhole(on bool) {
	p.mu.Lock()
	p.blackhole = on
	p.broadcastLocked()
	var broken []*link
	if !on {
		// Under the same lock, so that nothing is delivered behind a hole.
		broken = p.closeLinksLocked(func(l *link) bool { return l.lost })
	}
	p.mu.Unlock()
	wait(broken)
}

// Refuse resets new connections as soon as they are made. Existing ones go on.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Retarget leads new connections to another server, given as host and port.
// Existing ones stay with theirs, as behind an address that moves in a failover.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Hold stalls the connections that exist, until it is lifted. New ones work.
func (p *Proxy) Hold(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.held = on
	}
	p.broadcastLocked()
}

// Forget swallows for good what is sent on the connections that exist, and their
// ends, as a router does that has lost its table of them. New ones work. With
// addresses, as the server sees them, it forgets only those connections.
func (p *Proxy) Forget(addrs ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if len(addrs) == 0 || slices.Contains(addrs, l.server.LocalAddr().String()) {
			l.forgotten = true
		}
	}
	p.broadcastLocked()
}

// Cut closes every connection, and returns when they are gone. Bytes under way
// are lost. New connections may be made at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	links := p.closeLinksLocked(func(*link) bool { return true })
	p.mu.Unlock()
	wait(links)
}

// DropReplies lets the next request for which match returns true reach the
// server, swallows its reply, and then closes that connection: the request was
// executed and its sender cannot know. Replies to earlier requests on the
// connection, and pushes, are delivered before. The returned channel is closed
// when the connection is. If the connection breaks before the reply comes, the
// order stands for the next request that matches.
//
// match is given one whole command as it is on the wire, and must neither keep
// it nor call the proxy. It is called for each command of every connection until
// one matches. Of several orders that match a request, the oldest gets it.
//
// A connection that subscribes must speak RESP3, and none may use CLIENT REPLY or
// MONITOR; otherwise replies cannot be told from other messages.
func (p *Proxy) DropReplies(match func(request []byte) bool) (landed <-chan struct{}) {
	d := &drop{match: match, landed: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	// A copy, because readers use the old slice without the lock.
	p.drops = append(slices.Clone(p.drops), d)
	return d.landed
}

// Bytes returns how many bytes were delivered to the server and to clients.
func (p *Proxy) Bytes() (up, down int64) { return p.up.Load(), p.down.Load() }

// Dropped returns how many bytes a blackhole has swallowed.
func (p *Proxy) Dropped() int64 { return p.dropped.Load() }

// Accepted returns how many connections were made in all, refused ones aside.
func (p *Proxy) Accepted() int64 { return p.accepted.Load() }

// Connections returns how many connections exist.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// accept makes a link of each connection until the listener is closed.
func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() { p.serve(conn) })
	}
}

// serve carries one connection to its end.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	refuse, target := p.refuse || p.closed, p.target
	p.mu.Unlock()
	if refuse {
		reset(client)
		return
	}
	server, err := net.DialTimeout("tcp", target, dialTimeout)
	if err != nil {
		reset(client)
		return
	}
	l := &link{p: p, client: client, server: server, closed: make(chan struct{}), done: make(chan struct{})}
	p.mu.Lock()
	if p.closed {
		l.close()
	}
	p.links[l] = true
	p.accepted.Add(1)
	p.mu.Unlock()
	l.run()
}

// reset closes a connection so that its peer sees an error rather than an end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		// Without it the peer sees an end, which is as good.
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// String returns the two addresses, for messages.
func (p *Proxy) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%s->%s", p.Addr(), p.target)
}
