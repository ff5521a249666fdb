package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// describe says on what, with what and how the figures were made.
func describe(srv *server, set *settings, peers []*peer) ([]string, error) {
	info, err := srv.info("server")
	if err != nil {
		return nil, err
	}
	whose := "started for this, without persistence, on loopback"
	if srv.own == nil {
		whose = "at " + srv.addr
	}
	lines := []string{
		fmt.Sprintf("%s, %d processors%s", processor(), runtime.NumCPU(), loadAverage()),
		fmt.Sprintf("Redis %s, %s; %s %s/%s", info["redis_version"], whose, runtime.Version(), runtime.GOOS, runtime.GOARCH),
		versions(peers),
		fmt.Sprintf("go run . %s", strings.Join(set.args(), " ")),
	}
	for _, p := range peers {
		lines = append(lines, fmt.Sprintf("%s: %s", p.title, p.note))
	}
	return lines, nil
}

// args returns the arguments that make the same figures again.
func (s *settings) args() (args []string) {
	if s.quick {
		args = append(args, "-quick")
	}
	if s.scenarios != "*" {
		args = append(args, "-scenario '"+s.scenarios+"'")
	}
	if s.peers != "*" {
		args = append(args, "-peers '"+s.peers+"'")
	}
	if s.rounds > 0 {
		args = append(args, fmt.Sprint("-rounds ", s.rounds))
	}
	if s.delay != time.Millisecond {
		args = append(args, fmt.Sprint("-delay ", s.delay))
	}
	return args
}

// versions returns the versions of the libraries and of the clients they use.
func versions(peers []*peer) string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "versions unknown"
	}
	wanted := map[string]bool{"github.com/redis/rueidis": true, "github.com/redis/go-redis/v9": true}
	for _, p := range peers {
		wanted[p.module] = wanted[p.module] || !p.own
	}
	var found []string
	for _, m := range build.Deps {
		if wanted[m.Path] {
			found = append(found, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
		}
	}
	return strings.Join(found, ", ")
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	first, _, ok := strings.Cut(string(text), " ")
	if err != nil || !ok {
		return ""
	}
	return ", load before the run " + first
}

// roundTrip returns the median time of a PING.
func roundTrip(addr string) (time.Duration, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	var took []int64
	for range 200 {
		start := time.Now()
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			return 0, err
		}
		if _, err := r.ReadString('\n'); err != nil {
			return 0, err
		}
		took = append(took, int64(time.Since(start)))
	}
	return time.Duration(percentile(took, 50)), nil
}
