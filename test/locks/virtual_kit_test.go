package locks_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// bubble runs a test in virtual time, in which a minute of leases takes milliseconds and a time
// can be compared exactly. Servers are miniredis, connections pipes.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// virtualServer starts a server in a bubble, whose keys expire by the virtual clock.
func virtualServer(t *testing.T) *miniredis.Miniredis {
	var m *miniredis.Miniredis
	redistest.WithoutFIPS(func() { m = miniredis.NewMiniRedis() })
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	return m
}

// virtualProcess is a session with a client of its own.
type virtualProcess struct {
	*relock.Session
	net *virtualNet
}

// startVirtual starts a process in a bubble. It lets a minute pass: the clock of a session takes
// real time for a suspend if it is ahead of virtual time.
func startVirtual(t *testing.T, m *miniredis.Miniredis, opts ...relock.SessionOption) virtualProcess {
	t.Helper()
	n := &virtualNet{server: m}
	n.changed.L = &n.mu
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"virtual:6379"}, ForceSingleClient: true, DisableCache: true, DialCtxFn: n.dial,
	})
	require.NoError(t, err)
	s, err := relock.NewSession(kit.Background, client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		n.freeze(false)
		ctx, cancel := kit.ContextFor(time.Minute)
		defer cancel()
		_ = s.Close(ctx)
		client.Close()
	})
	time.Sleep(time.Minute)
	return virtualProcess{s, n}
}

// virtualNet makes the connections of a process.
type virtualNet struct {
	server *miniredis.Miniredis

	mu      sync.Mutex // protects the following
	changed sync.Cond
	frozen  bool // nothing passes, and connections stay open
	mute    bool // nothing passes to the server
	dead    bool // nothing connects
	conns   []net.Conn
}

func (n *virtualNet) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return nil, errors.New("the network is down")
	}
	at, err := n.server.Dial()
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	n.conns = append(n.conns, near)
	go n.copy(at, far, true)
	go n.copy(far, at, false)
	return near, nil
}

// copy carries bytes one way until a connection is closed, and closes both.
func (n *virtualNet) copy(to, from net.Conn, out bool) {
	pending := make(chan []byte, 1000) // as in socket buffers
	go func() {
		defer close(pending)
		for {
			b := make([]byte, 4096)
			k, err := from.Read(b)
			if err != nil {
				return
			}
			pending <- b[:k]
		}
	}()
	for b := range pending {
		n.mu.Lock()
		for n.frozen || out && n.mute {
			n.changed.Wait()
		}
		n.mu.Unlock()
		if _, err := to.Write(b); err != nil {
			break
		}
	}
	_ = errors.Join(to.Close(), from.Close())
	for range pending {
	}
}

// freeze stops all that passes, as if the process did not run.
func (n *virtualNet) freeze(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen = on
	n.changed.Broadcast()
}

// sends lets requests pass again, or not.
func (n *virtualNet) sends(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mute = !on
	n.changed.Broadcast()
}

// die breaks all connections for ever, as the end of the process does.
func (n *virtualNet) die() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dead = true
	for _, c := range n.conns {
		_ = c.Close()
	}
}

// lostBy waits until a hold is lost, for d at most.
func lostBy(t *testing.T, l relock.Locker, d time.Duration) {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(d):
		t.Fatalf("it is not lost within %v", d)
	}
	require.ErrorIs(t, l.Err(), relock.ErrLost)
}

// lockType makes locks of one type, named "lock". A group has another member, "usual", without
// options.
type lockType struct {
	name string
	of   func(s *relock.Session, opts ...relock.LockOption) relock.Locker
}

// slow is how long a waiter may need once the lock is free.
func (k lockType) slow() time.Duration {
	if k.name == "redlock" { // it pauses between its attempts
		return 2 * time.Second
	}
	return 50 * time.Millisecond
}

func (k lockType) group() bool { return strings.HasPrefix(k.name, "group") }

var lockTypes = []lockType{
	{"mutex", func(s *relock.Session, o ...relock.LockOption) relock.Locker { return s.Mutex("lock", o...) }},
	{"fair", func(s *relock.Session, o ...relock.LockOption) relock.Locker { return s.FairMutex("lock", o...) }},
	{"writer", func(s *relock.Session, o ...relock.LockOption) relock.Locker { return s.RWMutex("lock", o...) }},
	{"reader", func(s *relock.Session, o ...relock.LockOption) relock.Locker {
		return s.RWMutex("lock", o...).RLocker()
	}},
	{"group by one script", func(s *relock.Session, o ...relock.LockOption) relock.Locker {
		return relock.NewGroup(s.Mutex("lock", o...), s.Mutex("usual"))
	}},
	{"group one by one", func(s *relock.Session, o ...relock.LockOption) relock.Locker {
		return relock.NewGroup(s.FairMutex("lock", o...), s.RWMutex("usual"))
	}},
	{"redlock", func(s *relock.Session, o ...relock.LockOption) relock.Locker {
		return relock.NewRedlock([]*relock.Session{s}, "lock", o...)
	}},
}

// opposite returns a lock that excludes l's type, for another process.
func (k lockType) opposite(s *relock.Session) relock.Locker {
	if k.name == "reader" {
		return s.RWMutex("lock")
	}
	return k.of(s)
}

// eachInBubble runs f for each type of lock, in a bubble of its own.
func eachInBubble(t *testing.T, f func(t *testing.T, k lockType)) {
	t.Helper()
	t.Parallel()
	for _, k := range lockTypes {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) { f(t, k) })
		})
	}
}
