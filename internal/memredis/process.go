package memredis

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/fips"
)

// Addr is what clients dial. It leads nowhere.
const Addr = "redis.test:6379"

// Of returns the network of a session of a Redis of relocktest, which sets it, for faults that
// only tests of this module need.
var Of func(redis, session any) *Process

// A Process is the network between one client and the server. It is safe for concurrent use.
type Process struct {
	s *Server

	mu      sync.Mutex     // protects the following, and every link's and stream's fields
	links   map[*link]bool // the connections, until both ends are closed
	cuts    [2]int         // by Direction: how many cuts are in force
	delay   time.Duration  // each way
	drops   int            // commands whose replies are to be lost
	unheard string         // what the message to be lost contains; empty: none is
	refuse  int            // how many reasons there are to make no connection
	gone    bool           // the process has vanished, for good
	changed chan struct{}  // closed and replaced when cuts, delay or drops change
}

// Process returns a new one, without faults.
func (s *Server) Process() *Process {
	p := &Process{s: s, links: make(map[*link]bool), changed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = append(s.processes, p)
	return p
}

// Server returns the server that the network leads to.
func (p *Process) Server() *Server { return p.s }

// Client connects a client, which the caller must close.
func (p *Process) Client() (rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{Addr},
		ForceSingleClient: true,
		DisableCache:      true, // miniredis has no client-side caching
		DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return p.Dial(ctx, d.Timeout)
		},
		RingScaleEachConn:   6,
		ReadBufferEachConn:  4 << 10,
		WriteBufferEachConn: 4 << 10,
	})
	if err != nil && client != nil {
		client.Close() // a single client comes with the error of its first dial
	}
	return client, err
}

// Dial makes a connection. It takes a round trip, and fails after timeout, which a cut can make
// it wait for.
func (p *Process) Dial(ctx context.Context, timeout time.Duration) (net.Conn, error) {
	start := time.Now()
	for {
		l, wait, changed := p.connect(start)
		if changed == nil && l == nil {
			return nil, &net.OpError{Op: "dial", Net: "memory", Addr: addr{}, Err: syscall.ECONNREFUSED}
		}
		if l != nil {
			var err error
			fips.Without(func() { err = p.s.serve(&l.server) })
			if err != nil {
				_, _ = l.client.Close(), l.server.Close()
				return nil, err
			}
			return &l.client, nil
		}
		left := timeout - time.Since(start)
		if left <= 0 {
			return nil, &net.OpError{Op: "dial", Net: "memory", Addr: addr{}, Err: os.ErrDeadlineExceeded}
		}
		timer := time.NewTimer(min(wait, left))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// connect makes a link if the network allows it. If not, it returns how long to wait, and for what
// else; nothing if the connection is refused.
func (p *Process) connect(since time.Time) (l *link, wait time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = 2*p.delay - time.Since(since)
	switch {
	case p.refuse > 0 || p.gone:
		return nil, 0, nil
	case p.cuts != [2]int{}:
		return nil, time.Hour, p.changed
	case wait > 0:
		return nil, wait, p.changed
	}
	l = newLink(p)
	p.links[l] = true
	return l, 0, nil
}

// reset breaks every connection from the server's end.
func (p *Process) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.resetLocked()
	}
}
