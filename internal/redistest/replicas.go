package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// settleWithin bounds every wait for servers to agree with each other.
const settleWithin = 30 * time.Second

// StartReplicas starts a primary and n replicas of it, as [Start] does, each with
// args, and returns when the primary streams to all of them.
func StartReplicas(t testing.TB, n int, args ...string) (primary *Server, replicas []*Server) {
	t.Helper()
	primary = Start(t, args...)
	for range n {
		of := []string{"--replicaof", "127.0.0.1", strconv.Itoa(primary.port)}
		replicas = append(replicas, Start(t, append(of, args...)...))
	}
	Eventually(t, settleWithin, "the replicas to be in sync", func() bool {
		return streamsTo(primary, replicas)
	})
	return primary, replicas
}

// streamsTo reports whether both sides of every replication link find it up. A
// server that is not awake cannot say so.
func streamsTo(primary *Server, replicas []*Server) bool {
	info, err := primary.info(probeTimeout, "replication")
	if err != nil || info["role"] != "master" {
		return false
	}
	online := make(map[string]bool)
	for key, value := range info {
		if strings.HasPrefix(key, "slave") && strings.Contains(value, "state=online") {
			_, port, _ := strings.Cut(value, "port=")
			port, _, _ = strings.Cut(port, ",")
			online[port] = true
		}
	}
	for _, r := range replicas {
		if !online[strconv.Itoa(r.port)] || !linked(r, primary) {
			return false
		}
	}
	return true
}

// linked reports whether a replica finds its link to a primary up.
func linked(replica, primary *Server) bool {
	info, err := replica.info(probeTimeout, "replication")
	return err == nil &&
		info["role"] == "slave" &&
		info["master_port"] == strconv.Itoa(primary.port) &&
		info["master_link_status"] == "up"
}

// settle polls until the servers agree, and reports to the test when they do not.
func settle(t testing.TB, what string, agreed func() bool) error {
	t.Helper()
	if poll(settleWithin, agreed) {
		return nil
	}
	return report(t, fmt.Errorf("redistest: not within %v: %s", settleWithin, what))
}

// awake returns the servers that run and are not frozen.
func awake(servers []*Server) []*Server {
	var up []*Server
	for _, s := range servers {
		if s.proc.Load().awake() {
			up = append(up, s)
		}
	}
	return up
}
