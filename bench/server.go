package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock/internal/redistest"
)

// server is the Redis that everything runs against, asked over a connection of its own.
type server struct {
	addr string
	own  *redistest.Server // nil if it is somebody else's
	c    *redis.Client
}

// openServer starts a server of its own in dir, or takes the one at addr.
func openServer(dir, addr string) (*server, error) {
	s := &server{addr: addr}
	if addr == "" {
		own, err := redistest.Launch(dir)
		if err != nil {
			return nil, err
		}
		s.own, s.addr = own, own.Addr()
	}
	s.c = redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 4, ReadTimeout: time.Minute, DialerRetries: 1, MaxRetries: -1})
	if err := s.c.Ping(context.Background()).Err(); err != nil {
		s.close()
		return nil, fmt.Errorf("cannot use Redis at %s: %w", s.addr, err)
	}
	return s, nil
}

func (s *server) close() {
	_ = s.c.Close() // nothing is under way
	if s.own != nil {
		s.own.Close()
	}
}

// info returns the fields of some sections of INFO.
func (s *server) info(sections ...string) (map[string]string, error) {
	text, err := s.c.Info(context.Background(), sections...).Result()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields, nil
}

// load is what the server has done and has.
type load struct {
	cpu      time.Duration
	scripts  int64 // run
	commands int64 // those of scripts among them
	memory   int64
	keys     int64
}

func (l load) since(before load) load {
	return load{l.cpu - before.cpu, l.scripts - before.scripts, l.commands - before.commands, l.memory - before.memory, l.keys - before.keys}
}

func (s *server) load() (l load, err error) {
	info, err := s.info("cpu", "commandstats", "memory")
	if err != nil {
		return l, err
	}
	for _, key := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info[key], 64)
		if err != nil {
			return l, fmt.Errorf("INFO: %s: %w", key, err)
		}
		l.cpu += time.Duration(seconds * float64(time.Second))
	}
	for key, value := range info {
		name, ok := strings.CutPrefix(key, "cmdstat_")
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if !ok || err != nil || name == "info" {
			continue
		}
		l.commands += n
		if name == "eval" || name == "evalsha" {
			l.scripts += n
		}
	}
	if l.memory, err = strconv.ParseInt(info["used_memory"], 10, 64); err != nil {
		return l, fmt.Errorf("INFO: used_memory: %w", err)
	}
	l.keys, err = s.c.DBSize(context.Background()).Result()
	return l, err
}

// clear empties a server of its own.
func (s *server) clear() error {
	if s.own == nil {
		return nil
	}
	return s.c.FlushAll(context.Background()).Err()
}

// ttls returns the times to live of keys, negative for those that are not there.
func (s *server) ttls(keys []string) ([]time.Duration, error) {
	out := make([]time.Duration, 0, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), 1000)
		p := s.c.Pipeline()
		replies := make([]*redis.DurationCmd, n)
		for i, key := range keys[:n] {
			replies[i] = p.PTTL(context.Background(), key)
		}
		if _, err := p.Exec(context.Background()); err != nil {
			return nil, err
		}
		for _, r := range replies {
			out = append(out, r.Val())
		}
		keys = keys[n:]
	}
	return out, nil
}

// commands returns how many commands clients send while f runs, not counting those
// that scripts send.
func (s *server) commands(f func() error) (n int, err error) {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, err
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		return 0, err
	}
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || line != "+OK\r\n" {
		return 0, errors.Join(err, fmt.Errorf("MONITOR: %q", line))
	}
	done := fmt.Sprint("done-", monotonic())
	if err := f(); err != nil {
		return 0, err
	}
	if err := s.c.Echo(context.Background(), done).Err(); err != nil {
		return 0, err
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if strings.Contains(line, done) {
			return n, nil
		}
		if ofClient(line) {
			n++
		}
	}
}

// ofClient reports whether a line of MONITOR shows a command that a client sent for its
// own sake: not one of a script, and not one that only asks for a sign of life.
func ofClient(line string) bool {
	_, rest, _ := strings.Cut(line, "[")
	source, command, _ := strings.Cut(rest, "] ")
	return !strings.HasSuffix(source, " lua") && command != "" && !strings.HasPrefix(strings.ToLower(command), `"ping"`)
}
