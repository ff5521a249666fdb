package topology_test

import (
	"net"
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

// A session that cannot work says so when it starts, and what is missing, before a release can fail half-way for it: that
// left the lock taken for a lease.
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
	commands := []string{"SCRIPT", "CLIENT", "ROLE", "WAIT", "PUBSUB"}
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
