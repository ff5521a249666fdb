package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

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
	noError(t, err)
	defer s.close()
	ctx := context.Background()
	before, err := s.load()
	noError(t, err)
	n, err := s.commands(func() error {
		script := `redis.call("SET", KEYS[1], "v", "PX", 60000); return redis.call("GET", KEYS[1])`
		return errors.Join(s.c.Eval(ctx, script, []string{"k"}).Err(), s.c.Ping(ctx).Err())
	})
	if err != nil || n != 1 {
		t.Errorf("%d commands, %v; want the EVAL alone", n, err)
	}
	after, err := s.load()
	noError(t, err)
	if d := after.since(before); d.scripts != 1 || d.keys != 1 || d.memory <= 0 || d.cpu <= 0 {
		t.Errorf("after one script that made one key: %+v", d)
	}
	ttls, err := s.ttls([]string{"k", "none"})
	if err != nil || len(ttls) != 2 || ttls[0] <= 0 || ttls[0] > time.Minute || ttls[1] >= 0 {
		t.Errorf("times to live: %v, %v", ttls, err)
	}
	noError(t, s.clear())
	if l, err := s.load(); err != nil || l.keys != 0 {
		t.Errorf("%d keys after clear, %v", l.keys, err)
	}
}
