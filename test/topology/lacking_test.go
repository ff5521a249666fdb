package topology_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// without returns the arguments of a server that does not know some commands.
func without(commands ...string) (args []string) {
	for _, c := range commands {
		args = append(args, "--rename-command", c, "")
	}
	return args
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

// A session that cannot work says so when it starts, and what is missing.
func TestWhatTheServerLacksIsReportedAtTheStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := replicated{server}
	replicas := relock.WithReplicas(1, time.Second)
	for command, c := range map[string]struct {
		what string
		opts []relock.SessionOption
	}{
		"eval":      {"running a script", nil},
		"evalsha":   {"running a script", nil},
		"publish":   {"publishing", nil},
		"subscribe": {"subscribing", nil},
		"wait":      {"waiting for replicas", []relock.SessionOption{replicas}},
	} {
		admin(t, server, "ACL", "SETUSER", "default", "+@all", "-"+command)
		text := refusal(t, d, c.opts...)
		require.Contains(t, text, c.what, command)
		require.Regexp(t, "NOPERM|"+refusedInScript, text, command)
	}
	admin(t, server, "ACL", "SETUSER", "default", "+@all")

	bare := replicated{redistest.Start(t, without("EVALSHA", "WAIT")...)}
	require.Contains(t, refusal(t, bare), "unknown command")
	bare = replicated{redistest.Start(t, without("WAIT")...)}
	require.Contains(t, refusal(t, bare, replicas), "waiting for replicas: unknown command")
	kit.Lock(t, kit.Background, kit.SessionOn(t, bare.Client(t)).Mutex("without WAIT"))
}

func TestWhatAClusterLacksIsReportedAtTheStart(t *testing.T) {
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

	// Before Redis 7, and with some providers, there is nothing of the kind: then plain
	// messages do.
	set("-spublish", "-ssubscribe", "-sunsubscribe", "-pubsub|shardnumsub")
	join := parties(t, c)
	a, b := join(), join()
	handOver(t, duels(t, a, b, "without shards"))
}

// What a session can do without may be missing, as it is with some providers.
func TestLocksOfEveryKindWorkWithoutWhatTheyDoNotNeed(t *testing.T) {
	t.Parallel()
	missing := without("SCRIPT", "CLIENT", "ROLE", "WAIT", "PUBSUB")
	if redistest.Has(t, redistest.ShardedPubSub) {
		missing = append(missing, without("SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE")...)
	}
	for _, d := range []deployment{
		replicated{redistest.Start(t, missing...)},
		redistest.StartCluster(t, 3, 0, missing...),
	} {
		join := parties(t, d)
		a, b := join(), join()
		handOver(t, duels(t, a, b, "without"))
	}
}
