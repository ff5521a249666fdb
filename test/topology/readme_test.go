package topology_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// more returns what README.md says after where, as arguments of ACL SETUSER.
func more(t *testing.T, where string) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	found := regexp.MustCompile(where).FindSubmatch(text)
	require.NotNil(t, found, "no permissions in README.md: %s", where)
	return strings.Fields(string(found[1]))
}

// documentedACL returns the rule that README.md gives for a user of the locks whose
// names start with goods:, as the arguments of a command.
func documentedACL(t *testing.T) []string {
	t.Helper()
	rule := more(t, `(?m)^(ACL SETUSER .*)$`)
	for i, word := range rule {
		if strings.HasPrefix(word, "%R~") && !redistest.Has(t, redistest.FineRules) {
			rule[i] = more(t, "does not know `%R~`: give `([^`]*)`")[0]
		}
	}
	return rule
}

// A user with the documented rule can do everything, and nothing that is needed is refused on the way.
func TestDocumentedPermissionsSuffice(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	permit(t, append(documentedACL(t), more(t, "For `WithReplicas` add `([^`]*)`")...), primary)
	everyKindOfLock(t, permitted(replicated{primary}))
	everyKindOfLock(t, permitted(replicated{primary}), relock.WithReplicas(1, kit.Soon))
	nothingRefused(t, append(replicas, primary)...)
}

// In a cluster the client is also sent on, from a slot that is being moved.
func TestDocumentedPermissionsSufficeInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	rule := append(documentedACL(t), more(t, "In a cluster add `([^`]*)`")...)
	if redistest.Has(t, redistest.ShardedPubSub) {
		rule = append(rule, more(t, "In a cluster .* from Redis 7.0 on `([^`]*)`")...)
	}
	if redistest.Has(t, redistest.ClusterShards) {
		rule = append(rule, more(t, "(?s)cluster from Redis 8 on.*?`([^`]*)`")...)
	}
	permit(t, rule, cluster.Nodes()...)
	everyKindOfLock(t, permitted(cluster))
	m := kit.SessionOn(t, permitted(cluster).Client(t)).Mutex("goods:moved")
	kit.Lock(t, kit.Background, m)
	moving, err := cluster.BeginMigration(redistest.Slot(m.Name()), elsewhere(t, cluster, m.Name()))
	require.NoError(t, err)
	require.NoError(t, moving.Move(m.Name()))
	kit.Unlock(t, kit.Background, m)
	require.NoError(t, moving.Finish())

	rule = append(rule, more(t, "For `WithReplicas` add `([^`]*)`")...)
	permit(t, append(rule, more(t, "`WithReplicas`.* in a cluster also `([^`]*)`")...), cluster.Nodes()...)
	everyKindOfLock(t, permitted(cluster), relock.WithReplicas(1, kit.Soon))
	nothingRefused(t, cluster.Nodes()...)
}

// permitted returns the deployment as the documented user sees it.
func permitted(d deployment) deployment {
	return with{d, func(o *rueidis.ClientOption) {
		o.Username, o.Password = "relock", "password"
		o.ClientSetInfo = rueidis.DisableClientSetInfo
	}}
}

func permit(t *testing.T, rule []string, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		admin(t, s, rule...)
	}
}

func nothingRefused(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		log, err := s.Do("ACL", "LOG")
		require.NoError(t, err)
		for _, entry := range log.([]any) {
			require.Contains(t, fmt.Sprint(entry), "object psubscribe ", "which a session can do without")
		}
	}
}

// everyKindOfLock uses each kind of lock in two sessions at the same time, with waits
// that are given up and renewals in between, and what there is for operators.
func everyKindOfLock(t *testing.T, d deployment, opts ...relock.SessionOption) {
	t.Helper()
	const lease = 5 * time.Second
	join := parties(t, d, append(opts, relock.WithLease(lease))...)
	a, b := join(), join()
	all := duels(t, a, b, "goods:")
	for _, d := range all {
		ok, err := d.waits(b, d.name).TryLock(kit.Background)
		require.False(t, ok, d.kinds)
		require.NoError(t, err, d.kinds)
		ctx, giveUp := context.WithCancel(kit.Background)
		time.AfterFunc(10*time.Millisecond, giveUp)
		require.ErrorIs(t, d.waits(b, d.name).Lock(ctx), context.Canceled, d.kinds)
	}
	renewed(t, all, lease)
	handOver(t, all)

	for _, d := range duels(t, a, b, "goods:") {
		state, err := b[0].Inspect(kit.Background, d.name)
		require.NoError(t, err, d.kinds)
		require.NotEqual(t, relock.Unlocked, state.Mode, d.kinds)
		was, err := b[0].ForceUnlock(kit.Background, d.name)
		require.NoError(t, err, d.kinds)
		require.True(t, was, d.kinds)
		err = d.held.Unlock(kit.Background)
		if d.kinds != "Redlock" { // of which the others are the majority
			require.ErrorIs(t, err, relock.ErrLost, d.kinds)
		}
		require.NoError(t, kit.Receive(t, d.got, "the waiter of "+d.kinds+" to get in"))
	}
	require.NoError(t, b[0].Close(kit.Background)) // releases what is held
	require.NoError(t, a[0].Close(kit.Background))
}
