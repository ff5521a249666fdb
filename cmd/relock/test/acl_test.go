package test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// ruled returns the rule that relock acl prints, after it was given to servers.
func ruled(t testing.TB, address string, servers []*redistest.Server, args ...string) []string {
	t.Helper()
	r := start(t, command(address, append([]string{"acl"}, args...)...))
	r.ends(0)
	rule := strings.Fields(r.out.String())
	for _, s := range servers {
		admin(t, s, rule...)
		admin(t, s, "ACL", "SETUSER", rule[2], ">password")
	}
	return rule
}

// permitted starts a session of a user with a rule.
func permitted(t testing.TB, address string, opts ...relock.SessionOption) *relock.Session {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, Username: "relock", Password: "password"})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s, err := relock.NewSession(t.Context(), c, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// everyLock has two sessions pass each type of lock to each other.
func everyLock(t testing.TB, a, b *relock.Session, prefix string) {
	t.Helper()
	for _, kind := range []func(s *relock.Session) relock.Locker{
		func(s *relock.Session) relock.Locker { return s.Mutex(prefix + "mutex") },
		func(s *relock.Session) relock.Locker { return s.FairMutex(prefix + "fair") },
		func(s *relock.Session) relock.Locker { return s.RWMutex(prefix + "rw") },
		func(s *relock.Session) relock.Locker { return s.RWMutex(prefix + "rw").RLocker() },
		func(s *relock.Session) relock.Locker {
			return relock.NewGroup(s.Mutex(prefix+"g1"), s.FairMutex(prefix+"g2"), s.RWMutex(prefix+"g3"))
		},
		func(s *relock.Session) relock.Locker {
			return s.Mutex(prefix+"rests", relock.WithMinHold(time.Millisecond))
		},
		func(s *relock.Session) relock.Locker { return s.Semaphore(prefix+"sem", 1) },
	} {
		first, second := kind(a), kind(b)
		require.NoError(t, first.Lock(t.Context()))
		next := make(chan error, 1)
		go func() { next <- second.Lock(t.Context()) }()
		time.Sleep(50 * time.Millisecond) // so that it waits, or shares
		require.NoError(t, first.Unlock(t.Context()), "%T", first)
		require.NoError(t, <-next, "%T", first)
		require.NoError(t, second.Unlock(t.Context()), "%T", first)
	}
	m := a.Mutex(prefix + "forced")
	require.NoError(t, m.Lock(t.Context()))
	state, err := b.Inspect(t.Context(), prefix+"forced")
	require.NoError(t, err)
	require.NotEmpty(t, state.Holders[0].Label)
	was, err := b.ForceUnlock(t.Context(), prefix+"forced")
	require.NoError(t, err)
	require.True(t, was)
	<-m.Done()
}

// harmless to refuse: the questions whether this is a cluster, its name, and whether pub/sub is sharded. Redis 6.2
// names no subcommands.
var harmless = []any{"cluster|slots", "cluster|shards", "cluster", "client", "pubsub"}

// denied returns what else the user was refused.
func denied(t testing.TB, s *redistest.Server) string {
	t.Helper()
	text := ""
	for _, entry := range admin(t, s, "ACL", "LOG").([]any) {
		e := entry.([]any)
		for i := 0; i+1 < len(e); i += 2 {
			if e[i] == "object" && !slices.Contains(harmless, e[i+1]) {
				text += e[i+1].(string) + " "
			}
		}
	}
	return text
}

func TestPrintedRuleIsEnoughForEveryLock(t *testing.T) {
	t.Parallel()
	var servers []*redistest.Server
	var sessions []*relock.Session
	for range 3 {
		s := redistest.Start(t)
		ruled(t, s.Addr(), []*redistest.Server{s}, "goods:", "--tags", "--list")
		servers, sessions = append(servers, s), append(sessions, permitted(t, s.Addr(), relock.WithPrefix("goods:")))
	}
	other := permitted(t, servers[0].Addr(), relock.WithPrefix("goods:"))
	everyLock(t, sessions[0], other, "")
	everyLock(t, sessions[0], other, "{shop}:")
	l := relock.NewRedlock(sessions, "red")
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Contains(t, []string{"", "cluster|info ", "cluster "}, denied(t, servers[0]), "a session can do without that one")
	address := "redis://relock:password@" + servers[0].Addr()
	start(t, command(address, "list", "--prefix", "goods:")).ends(0)
	elsewhere := permitted(t, servers[0].Addr())
	require.ErrorContains(t, elsewhere.Mutex("other").Lock(t.Context()), "NOPERM")
}

func TestPrintedRuleIsEnoughInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	address := cluster.Nodes()[0].Addr()
	ruled(t, address, cluster.Nodes(), "{goods}:")
	everyLock(t, permitted(t, address), permitted(t, address), "{goods}:")
	ruled(t, address, cluster.Nodes(), "goods:")
	a, b := permitted(t, address), permitted(t, address)
	m, n := a.FairMutex("goods:1"), b.FairMutex("goods:1")
	require.NoError(t, m.Lock(t.Context()))
	require.NoError(t, m.Unlock(t.Context()))
	require.NoError(t, n.Lock(t.Context()))
	require.NoError(t, n.Unlock(t.Context()))
}

// WithReplicas, on one primary and in a cluster, whose client sends more.
func TestPrintedRuleIsEnoughForReplicas(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.StartReplicas(t, 1)
	cluster := redistest.StartCluster(t, 3, 1)
	replicated := relock.WithReplicas(1, time.Minute)
	for address, servers := range map[string][]*redistest.Server{
		primary.Addr():            {primary},
		cluster.Nodes()[0].Addr(): cluster.Nodes(),
	} {
		ruled(t, address, servers, "{goods}:", "--replicas")
		everyLock(t, permitted(t, address, replicated), permitted(t, address, replicated), "{goods}:")
		require.Contains(t, []string{"", "cluster|info ", "cluster "}, denied(t, servers[0]), "a session can do without that one")
	}
}

// The documents have the same rule, for a client that needs less.
func TestPrintedRuleIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	var line string
	for _, file := range []string{"../../../README.md", "../../../docs/operating.md"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if found := regexp.MustCompile(`(?m)^ACL SETUSER .*$`).FindString(string(text)); found != "" {
			line = found
		}
	}
	s := redistest.Start(t)
	rule := ruled(t, s.Addr(), []*redistest.Server{s}, "goods:")
	printed := slices.DeleteFunc(rule, func(w string) bool { return strings.HasPrefix(w, "+client|") })
	documented := slices.DeleteFunc(strings.Fields(line), func(w string) bool { return w == ">password" })
	slices.Sort(printed)
	slices.Sort(documented)
	require.Equal(t, documented, printed)
	run(t, s, "acl").ends(64)
	run(t, s, "acl", "a b").ends(64)
}
