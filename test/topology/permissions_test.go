package topology_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// admin sends a command to a server past all clients.
func admin(t testing.TB, server *redistest.Server, args ...string) {
	t.Helper()
	_, err := server.Do(args...)
	require.NoError(t, err)
}

// refusedInScript is what Redis, or Valkey, says of a command in a script that the user may
// not run.
const refusedInScript = "can't run this command|ACL failure in script"

func as(user, password string) func(*rueidis.ClientOption) {
	return func(o *rueidis.ClientOption) { o.Username, o.Password = user, password }
}

// Lock fails at once, with Redis's error, and leaves nothing for longer than it takes to clean up.
func TestAUserWithoutPermissionsIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for user, c := range map[string]struct {
		rules []string
		text  string
	}{
		"no-keys":      {[]string{"resetkeys", "~other:*"}, "NOPERM"},
		"no-token-key": {[]string{"resetkeys", "~lock"}, "NOPERM"},
		"no-hashes":    {[]string{"-hset"}, refusedInScript},
		"no-expiry":    {[]string{"-pexpire"}, refusedInScript}, // half-way through
		"no-tokens":    {[]string{"-set"}, refusedInScript},
	} {
		admin(t, server, "ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all")
		m := kit.SessionOn(t, kit.NewClient(t, server, as(user, "secret"))).Mutex("lock")
		admin(t, server, append([]string{"ACL", "SETUSER", user}, c.rules...)...)
		ctx, cancel := kit.ContextFor(kit.Soon)
		defer cancel()
		_, err := m.TryLock(ctx)
		for _, err := range []error{err, m.Lock(ctx)} {
			require.ErrorContains(t, err, `lock "lock": `)
			require.Regexp(t, c.text, err.Error())
		}
		require.NoError(t, ctx.Err(), "it was refused late")
		require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
		kit.GoneQuickly(t, kit.NewClient(t, server), "lock")
	}
}

// demote makes a server a replica of another; a session would not begin on one.
func demote(t testing.TB, s, primary *redistest.Server) {
	t.Helper()
	_, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	admin(t, s, "REPLICAOF", "127.0.0.1", port)
	redistest.Eventually(t, kit.Soon, "the server to be a replica", func() bool {
		return s.Info("replication")["master_link_status"] == "up"
	})
}

// refusal starts a session that must not come about, and returns why it did not.
func refusal(t testing.TB, d deployment, opts ...relock.SessionOption) string {
	t.Helper()
	ctx, cancel := kit.ContextFor(kit.Soon)
	defer cancel()
	s, err := relock.NewSession(ctx, d.Client(t), opts...)
	require.Error(t, err)
	require.Nil(t, s)
	require.NoError(t, ctx.Err(), "it was refused late")
	return err.Error()
}

// A session that cannot work says so when it starts, and what is missing, before a release can fail half-way for it:
// that left the lock taken for a lease.
func TestWhatTheServerLacksIsReported(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := replicated{server}
	for command, what := range map[string]string{
		"eval": "running a script", "evalsha": "running a script", "publish": "publishing", "subscribe": "subscribing",
		"wait": "waiting for replicas", "hdel": "may not run hdel in scripts: give it +hdel ",
	} {
		admin(t, server, "ACL", "SETUSER", "default", "+@all", "-"+command)
		var opts []relock.SessionOption
		if command == "wait" {
			opts = append(opts, relock.WithReplicas(1, time.Second))
		}
		text := refusal(t, d, opts...)
		require.Contains(t, text, what, command)
		require.Regexp(t, "NOPERM|may not run|"+refusedInScript, text, command)
	}
	require.Empty(t, kit.Keys(t, kit.NewClient(t, server)), "what asking has left")
}

// In a cluster too; but without sharded pub/sub, as before Redis 7 and with some providers, plain messages do.
func TestWhatAClusterLacksIsReported(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ShardedPubSub)
	c := redistest.StartCluster(t, 3, 0)
	set := func(rules ...string) {
		for _, n := range c.Nodes() {
			admin(t, n, append([]string{"ACL", "SETUSER", "default", "+@all"}, rules...)...)
		}
	}
	for command, what := range map[string]string{
		"spublish": "publishing to shards", "ssubscribe": "subscribing to shards",
	} {
		set("-" + command)
		text := refusal(t, c)
		require.Contains(t, text, what)
		require.Contains(t, text, "NOPERM")
	}
	set("-zcount")
	require.Contains(t, refusal(t, c), "give it +zcount ")
	set("-spublish", "-ssubscribe", "-sunsubscribe", "-pubsub|shardnumsub")
	join := parties(t, c)
	handOver(t, duels(t, join(), join(), "without shards"))
}

// What a session can do without may be missing, as it is with some providers.
func TestLocksWorkWithoutWhatTheyDoNotNeed(t *testing.T) {
	t.Parallel()
	commands := []string{"SCRIPT", "CLIENT", "ROLE", "WAIT", "PUBSUB", "HRANDFIELD"}
	if redistest.Has(t, redistest.ShardedPubSub) {
		commands = append(commands, "SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE")
	}
	var missing []string
	for _, c := range commands {
		missing = append(missing, "--rename-command", c, "")
	}
	for _, d := range []deployment{
		replicated{redistest.Start(t, missing...)},
		redistest.StartCluster(t, 3, 0, missing...),
	} {
		join := parties(t, d)
		handOver(t, duels(t, join(), join(), "without"))
	}
}

// more returns what docs/operating.md says after where, as arguments of ACL SETUSER.
func more(t *testing.T, where string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	found := regexp.MustCompile(where).FindSubmatch(text)
	require.NotNil(t, found, "no permissions in docs/operating.md: %s", where)
	return strings.Fields(string(found[1]))
}

// documentedACL returns the rule that docs/operating.md gives for a user of the locks whose
// names start with goods:, as the arguments of a command.
func documentedACL(t *testing.T) []string {
	t.Helper()
	return more(t, `(?m)^(ACL SETUSER .*)$`)
}

// A user with the documented rule can do everything, and nothing that is needed is refused on the way.
func TestDocumentedPermissionsSuffice(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	rule := append(documentedACL(t), more(t, "For `WithReplicas` add `([^`]*)`")...)
	permit(t, rule, primary)
	everyKindOfLock(t, permitted(replicated{primary}), relock.WithReplicas(1, kit.Soon))
	nothingRefused(t, append(replicas, primary)...)

	labels := more(t, "Without `(~relock_session[^`]*)` everything works")[0]
	permit(t, slices.DeleteFunc(rule, func(word string) bool { return word == labels }), primary)
	everyKindOfLock(t, permitted(replicated{primary}), relock.WithLabel("nobody sees it"))
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
			// rueidis sends the last three when a connection of its pool is given back on which two calls
			// have overlapped, one of which is its own PING: on a busy machine. Without MULTI the answer to
			// DISCARD is an error in any case.
			require.Regexp(t, `object (cluster(\|info)?|punsubscribe|sunsubscribe|discard) `, fmt.Sprint(entry),
				"which a session can do without")
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
		redistest.Eventually(t, kit.Soon, d.kinds+" to be opened", func() bool {
			was, err := b[0].ForceUnlock(kit.Background, d.name)
			require.NoError(t, err, d.kinds)
			require.True(t, was || d.kinds == "Redlock", "%s, which may have its majority elsewhere", d.kinds)
			return was
		})
		err := d.held.Unlock(kit.Background)
		if d.kinds != "Redlock" { // of which the others are the majority
			require.ErrorIs(t, err, relock.ErrLost, d.kinds)
		}
		require.NoError(t, kit.Receive(t, d.got, "the waiter of "+d.kinds+" to get in"))
	}
	m := a[0].Mutex("goods:passed")
	ticket, err := kit.Acquire(t, kit.Background, m).Handoff(kit.Background, time.Minute)
	require.NoError(t, err)
	passed, err := b[0].Adopt(kit.Background, ticket)
	require.NoError(t, err)
	require.NoError(t, passed.Unlock(kit.Background))
	require.NoError(t, b[0].Close(kit.Background)) // releases what is held
	require.NoError(t, a[0].Close(kit.Background))
}
