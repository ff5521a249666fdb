package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

func TestProxyDelaysAndKeepsEveryByte(t *testing.T) {
	t.Parallel()
	const delay = 5 * time.Millisecond
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer echo.Close()
	defer front.Close()
	wg.Go(func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // until the client leaves
			})
		}
	})
	proxy := &proxyJob{Target: echo.Addr().String(), Delay: delay}
	wg.Go(func() { _ = proxy.accept(front) }) // until it is closed

	conn, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	start := time.Now()
	if _, err := conn.Write([]byte("PING\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); line != "PING\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if took := time.Since(start); took < delay {
		t.Errorf("a round trip took %v, less than the %v added", took, delay)
	}
	big := make([]byte, 1<<20)
	for i := range big {
		big[i] = byte(i * 31 >> 3)
	}
	wg.Go(func() { _, _ = conn.Write(big) }) // what does not arrive is missed below
	got := make([]byte, len(big))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != string(big) {
		t.Errorf("a mebibyte came back damaged: %v", err)
	}
}

func TestOnlyCommandsOfClientsAreCounted(t *testing.T) {
	for line, want := range map[string]bool{
		`+1700000000.123456 [0 127.0.0.1:5000] "EVALSHA" "abc" "1" "lua] name"`: true,
		`+1700000000.123456 [0 lua] "set" "k" "v"`:                              false,
		`+1700000000.123456 [0 127.0.0.1:5000] "PING"`:                          false,
		`+1700000000.123456 [0 unix:/tmp/s] "set" "k" "v"`:                      true,
		``: false,
	} {
		if got := ofClient(line); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

func TestServerTellsWhatItDoes(t *testing.T) {
	needRedis(t)
	s, err := openServer(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ctx := context.Background()
	before, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.commands(func() error {
		script := `redis.call("SET", KEYS[1], "v", "PX", 60000); return redis.call("GET", KEYS[1])`
		return errors.Join(s.c.Eval(ctx, script, []string{"k"}).Err(), s.c.Ping(ctx).Err())
	})
	if err != nil || n != 1 {
		t.Errorf("%d commands, %v; want the EVAL alone", n, err)
	}
	after, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	if d := after.since(before); d.scripts != 1 || d.keys != 1 || d.memory <= 0 || d.cpu <= 0 {
		t.Errorf("after one script that made one key: %+v", d)
	}
	ttls, err := s.ttls([]string{"k", "none"})
	if err != nil || len(ttls) != 2 || ttls[0] <= 0 || ttls[0] > time.Minute || ttls[1] >= 0 {
		t.Errorf("times to live: %v, %v", ttls, err)
	}
	if err := s.clear(); err != nil {
		t.Fatal(err)
	}
	if l, err := s.load(); err != nil || l.keys != 0 {
		t.Errorf("%d keys after clear, %v", l.keys, err)
	}
}
