package topology_test

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// monitored records what servers run, also from scripts, until the function that it
// returns is called, which returns the lines of MONITOR.
func monitored(t testing.TB, servers ...*redistest.Server) (stop func() []string) {
	t.Helper()
	const last = "that is all"
	var collected []<-chan []string
	for _, s := range servers {
		conn, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(3*kit.Soon)))
		_, err = fmt.Fprint(conn, "MONITOR\r\n")
		require.NoError(t, err)
		lines := bufio.NewScanner(conn)
		require.True(t, lines.Scan() && lines.Text() == "+OK", "the reply of MONITOR: %v", lines.Err())
		collected = append(collected, kit.Async(func() (all []string) {
			for lines.Scan() && !strings.Contains(lines.Text(), last) {
				all = append(all, lines.Text())
			}
			return all
		}))
	}
	return func() (all []string) {
		t.Helper()
		for i, s := range servers {
			admin(t, s, "ECHO", last)
			all = append(all, kit.Receive(t, collected[i], "the end of MONITOR")...)
		}
		return all
	}
}

var (
	messaging = regexp.MustCompile(`(?i)\] "([ps]?subscribe|s?publish)" (.*)`)
	channels  = regexp.MustCompile(`"((?:redisson_|relock_)[a-z_]+):`)
)

// messages uses locks of every kind, and returns which commands went with which kinds
// of channels, without repetition.
func messages(t *testing.T, d deployment) (used []string) {
	t.Helper()
	join := parties(t, d)
	a, b := join(), join() // before, because a start tries what there is
	stop := monitored(t, d.Nodes()...)
	handOver(t, duels(t, a, b, "handed over"))
	forced := duels(t, a, b, "forced")
	for _, d := range forced {
		if d.kinds == "Redlock" {
			continue // ends with a majority only
		}
		was, err := b[0].ForceUnlock(kit.Background, d.name)
		require.NoError(t, err, d.name)
		require.True(t, was, d.name)
		kit.Receive(t, d.held.Done(), d.name+" to be lost")
	}
	for _, line := range stop() {
		if m := messaging.FindStringSubmatch(line); m != nil {
			for _, channel := range channels.FindAllStringSubmatch(m[2], -1) {
				used = append(used, strings.ToUpper(m[1])+" "+channel[1])
			}
		}
	}
	slices.Sort(used)
	return slices.Compact(used)
}

// Redisson publishes to shards where it talks to a cluster that can do that, and
// nowhere else. PUBLISH and SPUBLISH do not reach each other. Only what is between
// sessions of relock goes another way: it is not of one slot.
func TestMessagesOfLocksAreShardedInAClusterOnly(t *testing.T) {
	t.Parallel()
	sharded := "" // before Redis 7.0 there are no shards of pub/sub
	if redistest.Has(t, redistest.ShardedPubSub) {
		sharded = "S"
	}
	primary, replicas := redistest.StartReplicas(t, 1)
	for _, c := range []struct {
		what   string
		d      deployment
		prefix string
	}{
		{"a primary with a replica", replicated(append([]*redistest.Server{primary}, replicas...)), ""},
		{"a cluster", redistest.StartCluster(t, 3, 0), sharded},
	} {
		want := []string{"PUBLISH relock_session", c.prefix + "PUBLISH redisson_rwlock", c.prefix + "PUBLISH redisson_lock__channel"}
		if c.prefix != "" { // elsewhere grants come on the channel of the session
			want = append(want, "SPUBLISH relock_grant", "SSUBSCRIBE relock_grant")
		} else { // a Redlock listens; of shards there are no patterns
			want = append(want, "PSUBSCRIBE redisson_lock__channel")
		}
		slices.Sort(want)
		require.Equal(t, want, messages(t, c.d), c.what)
	}
}
