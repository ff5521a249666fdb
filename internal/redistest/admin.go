package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	adminTimeout = 20 * time.Second // of Do
	probeTimeout = time.Second      // of commands that find out how a server is
)

// Do sends one command over a connection of its own and returns the reply: a
// string, an int64, nil, or a []any of these. It reaches the server when the
// clients' connections do not, and is not seen in their traffic, though the
// server counts the command and, while it runs, the connection.
//
// Do blocks for at most 20 seconds, for instance on a frozen server. It returns
// the server's error replies, whose text is the server's, and connection errors;
// after one of these the command may or may not have run.
func (s *Server) Do(args ...string) (any, error) { return s.do(adminTimeout, args...) }

// do is Do with a time limit on each command, AUTH among them.
func (s *Server) do(timeout time.Duration, args ...string) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("redistest: empty command")
	}
	conn, err := net.DialTimeout("tcp", s.Addr(), timeout)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	var request []byte
	if s.password != "" {
		request = appendCommand(request, "AUTH", s.password)
	}
	if _, err := conn.Write(appendCommand(request, args...)); err != nil {
		return nil, fmt.Errorf("redistest: %s: %w", args[0], err)
	}
	r := bufio.NewReader(conn)
	if s.password != "" {
		if _, err := readReply(r); err != nil {
			return nil, fmt.Errorf("redistest: AUTH: %w", err)
		}
	}
	reply, err := readReply(r)
	if err != nil {
		return nil, fmt.Errorf("redistest: %s: %w", args[0], err)
	}
	if err, ok := reply.(replyError); ok {
		return nil, err
	}
	return reply, nil
}

// ready reports whether the process with the given id, and not another one on
// the same port, answers commands and has loaded its data.
func (s *Server) ready(pid int) bool {
	info, err := s.info(probeTimeout, "server")
	var refused replyError
	if !errors.As(err, &refused) && info["process_id"] != strconv.Itoa(pid) {
		return false
	}
	// What it refuses, for want of a password for instance, it has loaded.
	_, err = s.do(probeTimeout, "PING")
	return err == nil || errors.As(err, &refused) && !strings.HasPrefix(err.Error(), "LOADING")
}

// info returns a section of INFO as a map.
func (s *Server) info(timeout time.Duration, section string) (map[string]string, error) {
	reply, err := s.do(timeout, "INFO", section)
	if err != nil {
		return nil, err
	}
	text, ok := reply.(string)
	if !ok {
		return nil, fmt.Errorf("%w: INFO answered %T", errReply, reply)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields, nil
}

// Info returns a section of INFO, field by field. When the server does not answer
// within 20 seconds the test fails, or the program panics if there is no test, as
// for all the methods below.
func (s *Server) Info(section string) map[string]string {
	s.tb.Helper()
	info, err := s.info(adminTimeout, section)
	s.must(err)
	return info
}

// must reports the error of a method that does not return one: to the test, or
// else by a panic.
func (s *Server) must(err error) {
	s.tb.Helper()
	if _, ok := s.tb.(noTest); ok && err != nil {
		panic(err)
	}
	// What is returned here is in the test's log already.
	_ = report(s.tb, err)
}

// CommandStats returns how often each command was called since the server
// started or CONFIG RESETSTAT was sent, by its lower-case name ("evalsha",
// "client|list"). Commands called by scripts count too.
func (s *Server) CommandStats() map[string]int64 {
	s.tb.Helper()
	calls := make(map[string]int64)
	for key, value := range s.Info("commandstats") {
		name, ok := strings.CutPrefix(key, "cmdstat_")
		count, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if n, err := strconv.ParseInt(count, 10, 64); ok && err == nil {
			calls[name] = n
		}
	}
	return calls
}

// CPU returns the processor time, user and system, that the server has used
// since it started.
func (s *Server) CPU() time.Duration {
	s.tb.Helper()
	var total time.Duration
	info := s.Info("cpu")
	for _, key := range []string{"used_cpu_user", "used_cpu_sys"} {
		if seconds, err := strconv.ParseFloat(info[key], 64); err == nil {
			total += time.Duration(seconds * float64(time.Second))
		}
	}
	return total
}

// PubSubClients returns how many connections have a subscription.
func (s *Server) PubSubClients() int {
	s.tb.Helper()
	list, err := s.Do("CLIENT", "LIST", "TYPE", "PUBSUB")
	s.must(err)
	text, _ := list.(string)
	return strings.Count(text, "\n")
}

// Channels returns the channels that have subscribers, plain ones first and
// sharded ones after them if the server knows such.
func (s *Server) Channels() []string {
	s.tb.Helper()
	var names []string
	for _, kind := range []string{"CHANNELS", "SHARDCHANNELS"} {
		reply, err := s.Do("PUBSUB", kind)
		var refused replyError
		if kind == "SHARDCHANNELS" && errors.As(err, &refused) && strings.Contains(err.Error(), "nknown subcommand") {
			break
		}
		s.must(err)
		list, _ := reply.([]any)
		for _, name := range list {
			if name, ok := name.(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}
