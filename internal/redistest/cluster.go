package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// A Cluster is a Redis Cluster. It is made by [StartCluster], and is safe for
// concurrent use. Its methods fail as described in the package documentation.
//
// Who is master of what is asked of the nodes that are awake at each call;
// frozen and killed nodes have no say.
type Cluster struct {
	tb    testing.TB
	nodes []*Server
	ids   map[*Server]string
}

// StartCluster starts a cluster for a test, as [Start] does: masters, which share
// the slots equally, and so many replicas of each. Each node is given args. It
// returns when all nodes agree and the replicas are in sync. Nodes call a master
// down after one second, and a replica never moves to another master by itself.
//
// A master must have company to be voted down: with fewer than three, no
// replica takes over when one dies.
func StartCluster(t testing.TB, masters, replicasPerMaster int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{tb: t, ids: make(map[*Server]string)}
	for range masters * (1 + replicasPerMaster) {
		s := Start(t, append([]string{
			"--cluster-enabled", "yes",
			"--cluster-node-timeout", "1000",
			"--cluster-allow-replica-migration", "no",
		}, args...)...)
		c.nodes = append(c.nodes, s)
		c.ids[s] = fmt.Sprint(c.command(s, "CLUSTER", "MYID"))
	}
	for i, s := range c.nodes {
		// Epochs that differ from the start need not be sorted out by gossip.
		c.command(s, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < masters {
			first, last := i*slots/masters, (i+1)*slots/masters-1
			add := []string{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE is of Redis 7.0
			for slot := first; slot <= last; slot++ {
				add = append(add, strconv.Itoa(slot))
			}
			c.command(s, add...)
		}
		for _, other := range c.nodes[:i] {
			c.command(s, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.port))
		}
	}
	Eventually(t, settleWithin, "the nodes to know each other", func() bool {
		return !slices.ContainsFunc(c.nodes, func(s *Server) bool {
			members, err := s.members()
			return err != nil || len(members) != len(c.nodes)
		})
	})
	for i, s := range c.nodes[masters:] {
		c.command(s, "CLUSTER", "REPLICATE", c.ids[c.nodes[i%masters]])
	}
	Eventually(t, settleWithin, "the cluster to settle", c.settled)
	return c
}

// command sends a command that must succeed for the test to go on.
func (c *Cluster) command(s *Server, args ...string) any {
	c.tb.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		c.tb.Fatalf("redistest: %s: %v", strings.Join(args, " "), err)
	}
	return reply
}

// settled reports whether the nodes that are awake call the cluster healthy,
// agree on its shape, and have their replication links up.
func (c *Cluster) settled() bool {
	nodes := awake(c.nodes)
	var agreed string
	for _, s := range nodes {
		members, err := s.members()
		if err != nil || len(members) != len(c.nodes) {
			return false
		}
		if agreed == "" {
			agreed = shape(members)
		}
		if shape(members) != agreed || !healthy(s) {
			return false
		}
		for _, m := range members {
			if m.myself && !m.master && !slices.ContainsFunc(nodes, func(n *Server) bool {
				return c.ids[n] == m.of && streamsTo(n, []*Server{s})
			}) {
				return false
			}
		}
	}
	return len(nodes) > 0
}

// healthy reports whether a node serves requests.
func healthy(s *Server) bool {
	reply, err := s.do(probeTimeout, "CLUSTER", "INFO")
	text, _ := reply.(string)
	return err == nil && strings.Contains(text, "cluster_state:ok")
}

// Settle returns when the nodes that are awake call the cluster healthy, agree on
// who serves what, and have their replication links up. It blocks for at most 30 seconds.
func (c *Cluster) Settle() error {
	c.tb.Helper()
	return settle(c.tb, "the cluster to settle", c.settled)
}

// Nodes returns all nodes, first those that began as masters, in the order of
// their slots.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// Client returns a client of the cluster, which is closed when the test ends.
// Client-side caching is off. Each mod may change the options. Client stops the
// test with t.Fatal when it cannot connect.
func (c *Cluster) Client(t testing.TB, mod ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	option := rueidis.ClientOption{Password: c.nodes[0].password}
	for _, s := range c.nodes {
		option.InitAddress = append(option.InitAddress, s.Addr())
	}
	return newClient(t, option, mod)
}

// NodeForKey returns the master of the slot of a key, as [Cluster.NodeForSlot] does.
func (c *Cluster) NodeForKey(key string) *Server { return c.NodeForSlot(Slot(key)) }

// NodeForSlot returns the node that is awake and is master of a slot, by its own
// account; of several, which a failover can leave for a moment, the one elected
// last. It returns nil when there is none.
func (c *Cluster) NodeForSlot(slot uint16) *Server {
	var found *Server
	epoch := int64(-1)
	for _, s := range awake(c.nodes) {
		if m, ok := s.myself(); ok && m.serves(slot) && m.epoch > epoch {
			found, epoch = s, m.epoch
		}
	}
	return found
}

// Masters returns the nodes that are awake and are masters by their own account.
func (c *Cluster) Masters() []*Server {
	return slices.DeleteFunc(awake(c.nodes), func(s *Server) bool {
		m, ok := s.myself()
		return !ok || !m.master
	})
}

// Replica returns a node that is awake and replicates another one, or nil when
// there is none.
func (c *Cluster) Replica(of *Server) *Server {
	for _, s := range awake(c.nodes) {
		if m, ok := s.myself(); ok && !m.master && m.of == c.ids[of] {
			return s
		}
	}
	return nil
}
