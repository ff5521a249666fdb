package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// NewFilter starts a proxy to a server that knows commands, and closes it when the test ends. It
// returns its address. For each command deny returns the text of an error, with which the command
// is answered; it passes if that is empty.
func NewFilter(t testing.TB, s *Server, deny func(args []string) string) (addr string) {
	t.Helper()
	l, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	f := &filter{target: s.Addr(), deny: deny}
	f.serving.Go(func() { f.accept(l) })
	t.Cleanup(func() {
		l.Close()
		f.close()
		f.serving.Wait()
	})
	return l.Addr().String()
}

type filter struct {
	target  string
	deny    func(args []string) string
	serving sync.WaitGroup // the accept loop, and two goroutines for each connection

	mu     sync.Mutex // protects following
	closed bool
	conns  []net.Conn
}

func (f *filter) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", f.target, dialTimeout)
		if err != nil {
			client.Close()
			continue
		}
		if !f.keep(client, server) {
			return
		}
		f.serving.Go(func() {
			defer client.Close()
			_, _ = io.Copy(client, server)
		})
		f.serving.Go(func() {
			defer server.Close()
			f.pass(client, server)
		})
	}
}

// keep has close end the connections, unless it has been called.
func (f *filter) keep(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		for _, c := range conns {
			c.Close()
		}
		return false
	}
	f.conns = append(f.conns, conns...)
	return true
}

func (f *filter) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, c := range f.conns {
		c.Close()
	}
}

// pass passes commands on until a connection ends. In place of one that is denied the server runs a
// script that returns the error, so answers stay in order.
func (f *filter) pass(client, server net.Conn) {
	for r := bufio.NewReader(client); ; {
		request, err := readReply(r)
		words, ok := request.([]any)
		if err != nil || !ok {
			return
		}
		args := make([]string, len(words))
		for i, w := range words {
			args[i] = fmt.Sprint(w)
		}
		if text := f.deny(args); text != "" {
			args = []string{"EVAL", "return redis.error_reply(ARGV[1])", "0", text}
		}
		if _, err := server.Write(appendCommand(nil, args...)); err != nil {
			return
		}
	}
}
