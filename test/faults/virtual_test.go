package faults_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// inBubble runs f in virtual time.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// network is a Redis in memory and the connections to it, without ports: in a bubble all of it is
// in virtual time.
type network struct {
	t      *testing.T
	server *miniredis.Miniredis

	mu      sync.Mutex // protects the following
	changed *sync.Cond
	hung    bool // nothing is delivered; connections can be made
	refuse  bool // no connection can be made
	ends    []net.Conn
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, server: miniredis.NewMiniRedis()}
	n.server.ClockTTL(true)
	n.changed = sync.NewCond(&n.mu)
	t.Cleanup(n.server.Close)
	t.Cleanup(func() { // when all sessions and clients are closed
		n.resume()
		n.die()
		time.Sleep(time.Minute) // for what is inside rueidis
	})
	return n
}

// set changes the state of n.
func (n *network) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	n.changed.Broadcast()
}

func (n *network) hang()   { n.set(func() { n.hung = true }) }
func (n *network) resume() { n.set(func() { n.hung, n.refuse = false, false }) }

// die breaks all connections and refuses new ones.
func (n *network) die() {
	n.set(func() {
		n.refuse = true
		for _, c := range n.ends {
			c.Close()
		}
	})
}

func (n *network) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse {
		return nil, errors.New("connection refused")
	}
	server, err := n.server.Dial()
	if err != nil {
		return nil, err
	}
	client, proxy := net.Pipe()
	n.ends = append(n.ends, client, server)
	n.carry(proxy, server)
	n.carry(server, proxy)
	return client, nil
}

// carry carries bytes of one direction, any number at a time.
func (n *network) carry(from, to net.Conn) {
	var queue bytes.Buffer
	ended := false
	go func() { // ends with the connection
		buf := make([]byte, 32<<10)
		for !ended {
			k, err := from.Read(buf)
			n.set(func() { queue.Write(buf[:k]); ended = err != nil })
		}
	}()
	go func() {
		defer to.Close()
		for {
			n.mu.Lock()
			for n.hung || queue.Len() == 0 && !ended {
				n.changed.Wait()
			}
			data := bytes.Clone(queue.Bytes())
			queue.Reset()
			over := ended
			n.mu.Unlock()
			if _, err := to.Write(data); err != nil || over {
				return
			}
		}
	}()
}

// session starts a session with a client of its own.
func (n *network) session(opts ...relock.SessionOption) *relock.Session {
	n.t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"mini"}, DialCtxFn: n.dial, DisableCache: true, ForceSingleClient: true,
	})
	require.NoError(n.t, err)
	n.t.Cleanup(client.Close)
	s, err := relock.NewSession(context.Background(), client, opts...)
	require.NoError(n.t, err)
	n.t.Cleanup(func() {
		n.resume()
		_ = s.Close(context.Background()) // fails where the test has broken Redis
	})
	return s
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*synctest bubble (\d+)`)

// stuck matches what nothing can end in rueidis: a call on its synchronous path, dialing, and
// closing.
var stuck = regexp.MustCompile(`rueidis\.(\(\*pipe\)\.(syncDo|syncDoMulti|Close)|_newPipe|\(\*mux\)\._pipe|\(\*singleconnect\))`)

// left returns the stacks of this bubble's goroutines that relock has started or runs in, without
// those stuck in rueidis.
func left(t *testing.T) (stacks []string) {
	t.Helper()
	buf := make([]byte, 64<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	own := goroutine.FindStringSubmatch(all[0])
	require.NotNil(t, own, all[0])
	for _, stack := range all[1:] {
		m := goroutine.FindStringSubmatch(stack)
		if m == nil || m[1] != own[1] || !strings.Contains(stack, "relock-go/relock/internal/") {
			continue
		}
		if !stuck.MatchString(stack) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// took returns how long f takes in virtual time.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
