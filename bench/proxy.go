package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// proxyJob is to stand between clients and a server and to keep back what the server
// says for a while, so that every round trip takes longer by that.
type proxyJob struct {
	Target string
	Delay  time.Duration
}

// serve listens on a free port, writes its address as a line of JSON, and serves for
// good.
func (p *proxyJob) serve(out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	if err := json.NewEncoder(out).Encode(l.Addr().String()); err != nil {
		return err
	}
	return p.accept(l)
}

func (p *proxyJob) accept(l net.Listener) error {
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		go p.link(client)
	}
}

// link serves one connection until either side closes it.
func (p *proxyJob) link(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.Target)
	if err != nil {
		return // the client finds its connection closed
	}
	go func() {
		// Why it ends makes no difference: then the server ends the other direction.
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_ = delayed(client, server, p.Delay)
	server.Close()
}

// delayed copies from src to dst, every byte so much later than it came.
func delayed(dst io.Writer, src io.Reader, by time.Duration) error {
	type piece struct {
		data []byte
		due  time.Time
	}
	pieces := make(chan piece, 4096)
	failed := make(chan error, 1)
	go func() {
		var err error
		for p := range pieces {
			if err == nil {
				time.Sleep(time.Until(p.due))
				_, err = dst.Write(p.data)
			}
		}
		failed <- err
	}()
	var err error
	for err == nil {
		buf := make([]byte, 16<<10)
		var n int
		n, err = src.Read(buf)
		if n > 0 {
			pieces <- piece{buf[:n:n], time.Now().Add(by)}
		}
	}
	close(pieces)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, <-failed)
}

// startProxy starts a proxy process, which is to be ended like a worker, and returns
// its address.
func startProxy(target string, delay time.Duration) (*hand, string, error) {
	h, err := startHand(job{Proxy: &proxyJob{target, delay}})
	if err != nil {
		return nil, "", err
	}
	line, err := h.line(startWithin)
	var addr string
	if err == nil {
		err = json.Unmarshal(line, &addr)
	}
	if err != nil {
		h.end()
		return nil, "", fmt.Errorf("proxy: %w", err)
	}
	return h, addr, nil
}
