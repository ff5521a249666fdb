package relock_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// documentedACL returns the rule that README.md gives for a user of the locks whose
// names start with goods:, as the arguments of a command.
func documentedACL(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ACL SETUSER .*$`).FindString(string(text))
	require.NotEmpty(t, line, "no ACL SETUSER in README.md")
	return strings.Fields(line)
}

// Every command of every script is in the documented rule, also those of branches
// that are seldom taken.
func TestDocumentedPermissionsNameEveryCommand(t *testing.T) {
	acl := documentedACL(t)
	sources, err := filepath.Glob("scripts*.lua.go")
	require.NoError(t, err)
	found := 0
	for _, name := range sources {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllStringSubmatch(string(text), -1) {
			found++
			if m[1] == "pubsub" {
				m[1] = "pubsub|numsub"
			}
			if !slices.Contains(acl, "+"+m[1]) {
				t.Errorf("%s calls %s, which the rule in README.md does not allow", name, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d commands found in %v", found, sources)
	}
}

// renewals counts the rounds of renewals that succeeded.
type renewals struct {
	relock.NopObserver
	count atomic.Int64
}

func (r *renewals) Renewed(e relock.RenewEvent) {
	if e.Err == nil {
		r.count.Add(1)
	}
}

// A user with the documented rule can do everything, and nothing is refused on the way.
func TestDocumentedPermissionsSuffice(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	permit(t, documentedACL(t), server)
	everyKindOfLock(t, func(mod func(*rueidis.ClientOption)) rueidis.Client { return newClient(t, server, mod) })
	nothingRefused(t, server)
}

func TestDocumentedPermissionsSufficeInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	more := regexp.MustCompile("In a cluster add `([^`]*)`").FindSubmatch(text)
	require.NotNil(t, more, "no further permissions in README.md")
	permit(t, append(documentedACL(t), strings.Fields(string(more[1]))...), cluster.Nodes()...)
	everyKindOfLock(t, func(mod func(*rueidis.ClientOption)) rueidis.Client { return cluster.Client(t, mod) })
	nothingRefused(t, cluster.Nodes()...)
}

func permit(t *testing.T, rule []string, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		_, err := s.Do(rule...)
		require.NoError(t, err)
	}
}

func nothingRefused(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		log, err := s.Do("ACL", "LOG")
		require.NoError(t, err)
		require.Empty(t, log, "ACL LOG")
	}
}

// everyKindOfLock uses each kind of lock in two sessions at the same time, with renewals
// in between, and what there is for operators.
func everyKindOfLock(t *testing.T, dial func(mod func(*rueidis.ClientOption)) rueidis.Client) {
	t.Helper()
	asUser := func(o *rueidis.ClientOption) {
		o.Username, o.Password = "relock", "password"
		o.ClientSetInfo = rueidis.DisableClientSetInfo
	}
	lease := relock.WithWatchdog(300 * time.Millisecond)
	var renewed renewals
	one := sessionOn(t, dial(asUser), lease, relock.WithObserver(&renewed))
	two := sessionOn(t, dial(asUser), lease)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()

	for kind, makers := range map[string][2]maker{ // who holds, and who waits
		"Mutex":     both(func(s *relock.Session) relock.Locker { return s.Mutex("goods:1") }),
		"FairMutex": both(func(s *relock.Session) relock.Locker { return s.FairMutex("goods:2") }),
		"writers":   both(func(s *relock.Session) relock.Locker { return s.RWMutex("goods:3") }),
		"reader and writer": {
			func(s *relock.Session) relock.Locker { return s.RWMutex("goods:4").RLocker() },
			func(s *relock.Session) relock.Locker { return s.RWMutex("goods:4") },
		},
		"writer and reader": {
			func(s *relock.Session) relock.Locker { return s.RWMutex("goods:5") },
			func(s *relock.Session) relock.Locker { return s.RWMutex("goods:5").RLocker() },
		},
		"Group": both(func(s *relock.Session) relock.Locker {
			return relock.NewGroup(s.Mutex("goods:6"), s.Mutex("goods:7"))
		}),
	} {
		held, waiting := makers[0](one), makers[1](two)
		require.NoError(t, held.Lock(ctx), kind)
		got := make(chan error)
		go func() { got <- waiting.Lock(ctx) }()
		before := renewed.count.Load()
		redistest.Eventually(t, soon, "a renewal", func() bool { return renewed.count.Load() > before })
		require.NoError(t, held.Unlock(ctx), kind)
		require.NoError(t, <-got, kind)
		require.NoError(t, waiting.Unlock(ctx), kind)
	}

	require.NoError(t, one.Mutex("goods:1").Lock(ctx))
	state, err := two.Inspect(ctx, "goods:1")
	require.NoError(t, err)
	require.Equal(t, relock.Exclusive, state.Mode)
	was, err := two.ForceUnlock(ctx, "goods:1")
	require.NoError(t, err)
	require.True(t, was)
}

type maker func(s *relock.Session) relock.Locker

func both(f maker) [2]maker { return [2]maker{f, f} }
