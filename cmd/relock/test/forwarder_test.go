package test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// forwarder is an address in front of a server: a balancer, or NAT.
type forwarder struct {
	listener net.Listener
	target   string

	mu    sync.Mutex // protects following
	table map[net.Conn]bool
	drops []byte // replies with this are dropped
}

// forward starts a forwarder for a test.
func forward(t testing.TB, target string) *forwarder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &forwarder{listener: l, target: target, table: make(map[net.Conn]bool)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			serving.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.mu.Lock()
		for c := range f.table {
			_ = c.Close()
		}
		f.mu.Unlock()
		serving.Wait()
	})
	return f
}

func (f *forwarder) address() string { return f.listener.Addr().String() }

// forget drops from now on what comes on the connections that exist.
func (f *forwarder) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.table {
		f.table[c] = false
	}
}

// drop drops replies that contain a text.
func (f *forwarder) drop(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drops = []byte(text)
}

func (f *forwarder) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", f.target)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.table[client] = true
	f.mu.Unlock()
	var both sync.WaitGroup
	carry := func(to io.WriteCloser, from io.Reader) {
		defer to.Close()
		buf := make([]byte, 1<<16)
		for n, err := from.Read(buf); err == nil; n, err = from.Read(buf) {
			f.mu.Lock()
			known := f.table[client] && (f.drops == nil || !bytes.Contains(buf[:n], f.drops))
			f.mu.Unlock()
			if known {
				_, _ = to.Write(buf[:n])
			}
		}
	}
	both.Go(func() { carry(server, client) })
	both.Go(func() { carry(client, server) })
	both.Wait()
	f.mu.Lock()
	delete(f.table, client)
	f.mu.Unlock()
}
