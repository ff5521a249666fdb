package topology_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// filtered returns a server behind a proxy that denies some commands.
func filtered(t testing.TB, s *redistest.Server, deny func(args []string) string) deployment {
	t.Helper()
	addr := redistest.NewFilter(t, s, deny)
	return with{replicated{s}, func(o *rueidis.ClientOption) { o.InitAddress = []string{addr} }}
}

// keysOf returns how many keys a script is given, -1 if it is no script.
func keysOf(args []string) int {
	if name := strings.ToUpper(args[0]); len(args) < 3 || name != "EVAL" && name != "EVALSHA" {
		return -1
	}
	n, _ := strconv.Atoi(args[2])
	return n
}

// without returns a server that lacks commands.
func without(t testing.TB, commands ...string) deployment {
	t.Helper()
	var args []string
	for _, c := range commands {
		args = append(args, "--rename-command", c, "")
	}
	return replicated{redistest.Start(t, args...)}
}

// What a server, a provider or a proxy cannot do, so that locks cannot work, is said in words: what
// that is, and what was answered. The text of the script that was tried is not.
func TestNewSessionSaysPlainlyWhatCannotWork(t *testing.T) {
	t.Parallel()
	oneKey := func(args []string) string {
		if keysOf(args) > 1 {
			return "ERR only one key is supported"
		}
		return ""
	}
	noScripts := func(args []string) string {
		if keysOf(args) >= 0 {
			return "ERR unsupported command '" + args[0] + "'"
		}
		return ""
	}
	for what, c := range map[string]struct {
		d     deployment
		texts []string
	}{
		"no EVAL": {without(t, "EVAL", "EVALSHA"), []string{
			"this server, or a proxy before it, has no EVAL, which locks cannot do without",
			"it says: unknown command ",
		}},
		"no EVALSHA": {without(t, "EVALSHA"), []string{"has no EVALSHA", "unknown command "}},
		"no expiry": {without(t, "PEXPIRE", "PEXPIREAT", "EXPIRE", "SETEX", "PSETEX"), []string{
			"this server does not run pexpire, pexpireat in scripts, which locks cannot do without; " +
				"a lock is a lease, and needs keys that expire; it says: ",
		}},
		"no SUBSCRIBE": {without(t, "SUBSCRIBE"), []string{
			"subscribing to relock_session:*: this server, or a proxy before it, has no SUBSCRIBE",
		}},
		"a proxy for one key": {filtered(t, redistest.Start(t), oneKey), []string{
			"this server, or a proxy before it, does not run scripts with several keys of one slot, " +
				"which locks cannot do without; it says: only one key is supported",
		}},
		"a proxy without scripts": {filtered(t, redistest.Start(t), noScripts), []string{
			"this server, or a proxy before it, has no EVAL", "it says: unsupported command 'EVAL'",
		}},
	} {
		text := refusal(t, c.d)
		for _, want := range c.texts {
			require.Contains(t, text, want, what)
		}
		require.NotContains(t, text, "redis.call", "%s: the script that was tried", what)
	}
}

// Valkey 9.1 has Lua as a module. EVALSHA says only NOSCRIPT then.
func TestNewSessionSaysThatAServerHasNoLua(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.LuaModule)
	s := redistest.Start(t, "--enable-module-command", "local")
	admin(t, s, "MODULE", "UNLOAD", "lua")
	require.Contains(t, refusal(t, replicated{s}), "this server runs no Lua scripts, "+
		"which locks cannot do without; it says: Could not find scripting engine 'lua'")
}

// A session finds out whether scripts may have several keys by keys that its user may have no right
// to, or that another node of a cluster has.
func TestKeysThatTellNothingHoldUpNoSession(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin(t, s, "ACL", "SETUSER", "app", "on", ">secret", "~lock*", "~*lock}*", "&*", "+@all")
	m := kit.SessionOn(t, s.Client(t, as("app", "secret"))).Mutex("lock")
	kit.Lock(t, kit.Background, m)
	kit.Unlock(t, kit.Background, m)
	cluster := redistest.StartCluster(t, 3, 0)
	for range 10 { // the keys are of one node, and each asks any
		kit.SessionOn(t, cluster.Client(t))
	}
}

// ElastiCache Serverless refuses scripts that have no keys. A session tries some that have none.
func TestLocksOfEveryKindWorkWhereScriptsMustHaveKeys(t *testing.T) {
	t.Parallel()
	d := filtered(t, redistest.Start(t), func(args []string) string {
		if keysOf(args) == 0 && strings.EqualFold(args[0], "EVAL") {
			return "ERR Lua scripts without any input keys are not supported."
		}
		return ""
	})
	join := parties(t, d)
	handOver(t, duels(t, join(), join(), "keys"))
}

// A server or proxy that knows only the older protocol, RESP2, is enough.
func TestLocksOfEveryKindWorkWithRESP2(t *testing.T) {
	t.Parallel()
	older := func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true }
	for what, d := range map[string]deployment{
		"that the client asks for": with{replicated{redistest.Start(t)}, older},
		"without HELLO":            without(t, "HELLO"),
		"in a cluster":             with{redistest.StartCluster(t, 3, 0), older},
		"a cluster without HELLO":  redistest.StartCluster(t, 3, 0, "--rename-command", "HELLO", ""),
		"through Sentinel":         with{redistest.StartSentinel(t), older},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			join := parties(t, d)
			handOver(t, duels(t, join(), join(), "older"))
		})
	}
	// Caching needs RESP3: the client itself says so, before there is a session.
	_, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}, AlwaysRESP2: true})
	require.ErrorContains(t, err, "DisableCache must be true")
}
