package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
)

// masterSet is the name under which the sentinels watch the primary.
const masterSet = "relock"

// sentinelConfig takes the sentinel's port, its directory, and the primary's port.
const sentinelConfig = `port %d
bind 127.0.0.1
dir %q
sentinel monitor ` + masterSet + ` 127.0.0.1 %d 2
sentinel down-after-milliseconds ` + masterSet + ` 2000
sentinel failover-timeout ` + masterSet + ` 3000
sentinel parallel-syncs ` + masterSet + ` 1
`

// sentinelPace makes sentinels look around more often than their defaults of one
// to ten seconds, and makes the time for which they do nothing after they were
// starved of the processor (tilt) short: by default that is 30 seconds. They ping each
// second, as by default: they promote no replica that was silent for five times that.
var sentinelPace = []string{
	"SENTINEL", "DEBUG",
	"info-period", "200", "ask-period", "100", "publish-period", "200",
	"tilt-period", "500",
}

// A Sentinel is a primary and two replicas, watched by three sentinels with a
// quorum of two. It is made by [StartSentinel], and is safe for concurrent use.
// Its methods fail as described in the package documentation.
type Sentinel struct {
	tb        testing.TB
	nodes     []*Server
	sentinels []*Server
}

// StartSentinel starts the servers and sentinels for a test, as [Start] does, and
// returns when they know each other. Sentinels call a primary down after two seconds: one that a
// busy machine kept waiting for half a second was replaced by a replica that had just begun to
// follow it, and had no data. Each data server is given args.
func StartSentinel(t testing.TB, args ...string) *Sentinel {
	t.Helper()
	primary, replicas := StartReplicas(t, 2, args...)
	s := &Sentinel{tb: t, nodes: append([]*Server{primary}, replicas...)}
	for range 3 {
		server, err := launchSentinel(t.TempDir(), primary.port)
		server = adopt(t, server, err)
		// Before Redis 7.0 sentinels cannot be told, and a failover takes seconds longer.
		if _, err := server.Do(sentinelPace...); err != nil && Has(t, SentinelPace) {
			t.Fatalf("redistest: sentinel: %v", err)
		}
		s.sentinels = append(s.sentinels, server)
	}
	Eventually(t, settleWithin, "the sentinels to know each other and the replicas", func() bool {
		return !slices.ContainsFunc(s.sentinels, func(server *Server) bool {
			state := sentinelView(server)
			return state["num-other-sentinels"] != "2" || state["num-slaves"] != "2" || state["flags"] != "master"
		})
	})
	return s
}

func launchSentinel(dir string, primary int) (*Server, error) {
	return launch(dir, func(port int) ([]string, error) {
		return sentinelCommand(dir, fmt.Sprintf(sentinelConfig, port, dir, primary))
	})
}

// sentinelCommand writes the configuration of a sentinel, and returns the arguments to start it.
func sentinelCommand(dir, config string) ([]string, error) {
	name := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("redistest: sentinel: %w", err)
	}
	return []string{name, "--sentinel", "--loglevel", "warning"}, nil
}

// StartLoneSentinel starts one sentinel for a test, as [Start] does. It watches what the given
// lines of its configuration say.
func StartLoneSentinel(t testing.TB, config string) *Server {
	t.Helper()
	dir := t.TempDir()
	s, err := launch(dir, func(port int) ([]string, error) {
		return sentinelCommand(dir, fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\n%s\n", port, dir, config))
	})
	return adopt(t, s, err)
}

// sentinelView returns what a sentinel knows of the primary; nil if it does not answer.
func sentinelView(sentinel *Server) map[string]string {
	reply, err := sentinel.do(probeTimeout, "SENTINEL", "MASTER", masterSet)
	fields, ok := reply.([]any)
	if err != nil || !ok {
		return nil
	}
	view := make(map[string]string)
	for pair := range slices.Chunk(fields, 2) {
		view[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
	}
	return view
}

// Nodes returns the data servers, in the order in which they were started.
func (s *Sentinel) Nodes() []*Server { return slices.Clone(s.nodes) }

// Sentinels returns the sentinels.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// Client returns a client that asks the sentinels for the primary, and is closed
// when the test ends. Client-side caching is off. Each mod may change the
// options. Client stops the test with t.Fatal when it cannot connect.
func (s *Sentinel) Client(t testing.TB, mod ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	option := rueidis.ClientOption{
		Password: s.nodes[0].password,
		Sentinel: rueidis.SentinelOption{MasterSet: masterSet},
	}
	for _, server := range s.sentinels {
		option.InitAddress = append(option.InitAddress, server.Addr())
	}
	return newClient(t, option, mod)
}

// Primary returns the data server that most of the sentinels name as primary
// now, or nil if they do not agree.
func (s *Sentinel) Primary() *Server {
	votes := make(map[string]int)
	for _, sentinel := range awake(s.sentinels) {
		reply, err := sentinel.do(probeTimeout, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterSet)
		if addr, ok := reply.([]any); err == nil && ok && len(addr) == 2 {
			votes[net.JoinHostPort(fmt.Sprint(addr[0]), fmt.Sprint(addr[1]))]++
		}
	}
	for _, node := range s.nodes {
		if votes[node.Addr()] > len(s.sentinels)/2 {
			return node
		}
	}
	return nil
}

// Failover makes the sentinels promote a replica although nothing is wrong, and
// returns the new primary when the failover is over and every server that is
// awake replicates it. It blocks for at most 60 seconds; when it fails it returns nil.
func (s *Sentinel) Failover() (*Server, error) {
	s.tb.Helper()
	old := s.Primary()
	if old == nil {
		return nil, report(s.tb, errors.New("redistest: the sentinels agree on no primary"))
	}
	err := errors.New("redistest: no sentinel is awake")
	poll(settleWithin, func() bool {
		// A sentinel refuses while another failover is being finished, or while it
		// has no fresh news of a replica.
		for _, sentinel := range awake(s.sentinels) {
			_, err = sentinel.do(probeTimeout, "SENTINEL", "FAILOVER", masterSet)
			break
		}
		return err == nil || s.Primary() != old
	})
	if err != nil && s.Primary() == old {
		return nil, report(s.tb, fmt.Errorf("redistest: failover: %w", err))
	}
	return s.WaitFailover(old)
}

// WaitFailover returns the primary that has taken the place of old, when all
// sentinels that are awake name it and every other data server that is awake
// replicates it. It blocks for at most 30 seconds; when it fails it returns nil.
func (s *Sentinel) WaitFailover(old *Server) (*Server, error) {
	s.tb.Helper()
	var primary *Server
	err := settle(s.tb, "a new primary with replicas in the place of "+old.Addr(), func() bool {
		primary = s.Primary()
		if primary == nil || primary == old {
			return false
		}
		for _, sentinel := range awake(s.sentinels) {
			view := sentinelView(sentinel)
			if view["port"] != strconv.Itoa(primary.port) || view["flags"] != "master" {
				return false
			}
		}
		return streamsTo(primary, slices.DeleteFunc(awake(s.nodes), func(n *Server) bool { return n == primary }))
	})
	if err != nil {
		return nil, err
	}
	return primary, nil
}
