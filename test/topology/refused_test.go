package topology_test

import (
	"os"
	"path/filepath"
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

// wantAtOnce checks that Lock and TryLock fail without waiting, with Redis's error,
// which the expression text matches, and leave nothing for longer than it takes to clean up.
func wantAtOnce(t testing.TB, server *redistest.Server, m *relock.Mutex, text string) {
	t.Helper()
	calls := map[string]func() error{
		"lock": func() error { return m.Lock(kit.Background) },
		"try to lock": func() error {
			_, err := m.TryLock(kit.Background)
			return err
		},
	}
	for op, call := range calls {
		err := kit.Receive(t, kit.Async(call), op+" to fail with "+text)
		require.Error(t, err)
		require.Regexp(t, text, err.Error())
		require.ErrorContains(t, err, "relock: ")
		require.ErrorContains(t, err, `"`+m.Name()+`": `)
		require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
		redistest.Eventually(t, kit.Quickly, "the lock to be free", func() bool {
			n, err := server.Do("EXISTS", m.Name())
			return err == nil && n == int64(0)
		})
	}
}

func as(user, password string) func(*rueidis.ClientOption) {
	return func(o *rueidis.ClientOption) { o.Username, o.Password = user, password }
}

// The user is taken away while its session is at work.
func TestAUserThatIsDeletedIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin(t, server, "ACL", "SETUSER", "relock", "on", ">secret", "~*", "&*", "+@all")
	s := kit.SessionOn(t, kit.NewClient(t, server, as("relock", "secret")))
	m := s.Mutex("lock")
	kit.Lock(t, kit.Background, m)
	kit.Unlock(t, kit.Background, m)
	admin(t, server, "ACL", "DELUSER", "relock") // closes its connections
	err := kit.Receive(t, kit.Async(func() error {
		ctx, cancel := kit.ContextFor(kit.Quickly)
		defer cancel()
		return m.Lock(ctx)
	}), "Lock to fail")
	require.ErrorContains(t, err, "WRONGPASS")
	wantAtOnce(t, server, m, "WRONGPASS")
}

func TestAUserWithoutPermissionsIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	add := func(user string, rules ...string) rueidis.Client {
		admin(t, server, append([]string{"ACL", "SETUSER", user, "on", ">secret"}, rules...)...)
		return kit.NewClient(t, server, as(user, "secret"))
	}
	// Redis says NOPERM of a key, and something else of a command in a script.
	const command = refusedInScript
	for user, c := range map[string]struct {
		rules []string
		text  string
	}{
		"no-keys":      {[]string{"resetkeys", "~other:*"}, "NOPERM"},
		"no-token-key": {[]string{"resetkeys", "~lock"}, "NOPERM"},
		"no-hashes":    {[]string{"-hset"}, command},
		"no-expiry":    {[]string{"-pexpire"}, command}, // half-way through
		"no-tokens":    {[]string{"-set"}, command},
	} {
		s := kit.SessionOn(t, add(user, "~*", "&*", "+@all"))
		admin(t, server, append([]string{"ACL", "SETUSER", user}, c.rules...)...)
		wantAtOnce(t, server, s.Mutex("lock"), c.text)
	}
}

// The server cannot save, and takes no writes. What is held can be released as soon
// as it can.
func TestAServerThatCannotSaveIsAnError(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	server := redistest.Start(t, "--save", "3600", "1", "--dir", dir)
	s := kit.NewSession(t, server)
	held := s.Mutex("held")
	kit.Lock(t, kit.Background, held)
	require.NoError(t, os.RemoveAll(dir))
	redistest.Eventually(t, kit.Soon, "saving to fail", func() bool {
		_, _ = server.Do("BGSAVE")
		return server.Info("persistence")["rdb_last_bgsave_status"] == "err"
	})
	wantAtOnce(t, server, s.Mutex("lock"), "MISCONF")
	unlocked := kit.Async(func() error { return held.Unlock(kit.Background) })
	time.Sleep(20 * time.Millisecond)
	admin(t, server, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	require.NoError(t, kit.Receive(t, unlocked, "Unlock to get through"))
	kit.Lock(t, kit.Background, s.Mutex("lock"))
}

// A replica may be about to become the primary: Lock waits for that.
func TestAReplicaIsWaitedFor(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	s := kit.NewSession(t, replica)
	demote(t, replica, primary)
	m := s.Mutex("lock")
	ok, err := m.TryLock(kit.Background)
	require.False(t, ok)
	require.ErrorContains(t, err, "READONLY")
	got := kit.Async(func() error { return m.Lock(kit.Background) })
	time.Sleep(20 * time.Millisecond)
	admin(t, replica, "REPLICAOF", "NO", "ONE")
	require.NoError(t, kit.Receive(t, got, "the lock of what is a primary now"))
	kit.Unlock(t, kit.Background, m)
	n, err := primary.Do("EXISTS", "lock")
	require.NoError(t, err)
	require.Zero(t, n)
}

// demote makes a server a replica of another; a session would not begin on one.
func demote(t testing.TB, s, primary *redistest.Server) {
	t.Helper()
	admin(t, s, "REPLICAOF", "127.0.0.1", portOf(t, primary))
	redistest.Eventually(t, kit.Soon, "the server to be a replica", func() bool {
		return s.Info("replication")["master_link_status"] == "up"
	})
}

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
func TestWhatTheServerLacksIsReported(t *testing.T) {
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

	// Before Redis 7, and with some providers, there is nothing of the kind: then plain
	// messages do.
	set("-spublish", "-ssubscribe", "-sunsubscribe", "-pubsub|shardnumsub")
	join := parties(t, c)
	a, b := join(), join()
	handOver(t, duels(t, a, b, "without shards"))
}

// What a session can do without may be missing, as it is with some providers.
func TestLocksWorkWithoutWhatTheyDoNotNeed(t *testing.T) {
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
