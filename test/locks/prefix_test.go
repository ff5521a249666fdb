package locks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Everything in Redis has the prefix, and users see names without it.
func TestPrefixIsBeforeTheNamesOfAllKeysAndChannels(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server, relock.WithPrefix("lock:")), kit.NewSession(t, server, relock.WithPrefix("lock:"))
	client := kit.NewClient(t, server)
	order(t, client, "HSET", "order:1", "status", "paid")
	before := dump(t, client, "order:1")
	for kind, of := range everyLock {
		l := of(s, "order:1")
		if named, ok := l.(interface{ Name() string }); ok {
			require.Equal(t, "order:1", named.Name())
		}
		kit.Lock(t, kit.Background, l)
		asked := server.CommandStats()["evalsha"]
		wanting := of(other, "order:1")
		if kind == "read" {
			wanting = other.RWMutex("order:1")
		}
		got := kit.Async(func() error { return wanting.Lock(kit.Background) })
		redistest.Eventually(t, kit.Soon, "the waiter to wait", func() bool { return server.CommandStats()["evalsha"] >= asked+2 })
		for _, key := range kit.Keys(t, client) {
			require.True(t, key == "order:1" || strings.HasPrefix(key, "lock:") || strings.Contains(key, "{lock:"), "%s: key %q", kind, key)
		}
		require.True(t, kit.Exists(t, client, "lock:order:1"), kind)
		channels, err := client.Do(kit.Background, client.B().PubsubChannels().Build()).AsStrSlice()
		require.NoError(t, err)
		for _, c := range channels {
			require.True(t, strings.HasPrefix(c, "relock_session:") || strings.Contains(c, "{lock:"), "%s: channel %q", kind, c)
		}
		kit.Unlock(t, kit.Background, l)
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"), kind)
		kit.Unlock(t, kit.Background, wanting)
	}
	require.Equal(t, before, dump(t, client, "order:1"))
}

// heardNames are the names in events.
type heardNames struct {
	relock.NopObserver
	names chan string
}

func (h heardNames) Acquired(_ context.Context, e relock.AcquireEvent) { h.names <- e.Name }
func (h heardNames) Released(_ context.Context, e relock.ReleaseEvent) { h.names <- e.Name }
func (h heardNames) Lost(e relock.LostEvent)                           { h.names <- e.Name }

func TestErrorsEventsAndOperatorsHaveNamesWithoutThePrefix(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		heard := heardNames{names: make(chan string, 100)}
		s := kit.NewSession(t, at, relock.WithPrefix("lock:"), relock.WithObserver(heard))
		bare, client := kit.NewSession(t, at), kit.NewClient(t, at)
		for kind, of := range everyLock {
			if strings.HasPrefix(kind, "group") {
				continue // they have no name
			}
			l := of(s, "order:1")
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
			if err := l.Unlock(kit.Background); !strings.Contains(err.Error(), `"order:1"`) {
				t.Fatalf("%s: %v", kind, err)
			}
			kit.Lock(t, kit.Background, l)
			ok, err := of(bare, "lock:order:1").TryLock(kit.Background) // the same lock
			require.NoError(t, err)
			require.Equal(t, kind == "read", ok, kind)
			if ok {
				bare.Close(kit.Background)
				bare = kit.NewSession(t, at)
			}
			state, err := s.Inspect(kit.Background, "order:1")
			require.NoError(t, err)
			require.Len(t, state.Holders, 1, kind)
			state, err = bare.Inspect(kit.Background, "order:1") // another lock
			require.NoError(t, err)
			require.Equal(t, relock.Unlocked, state.Mode)
			was, err := bare.ForceUnlock(kit.Background, "lock:order:1") // the message says the key
			require.NoError(t, err)
			require.True(t, was)
			kit.Receive(t, l.Done(), kind+": the holder to be told")
			require.ErrorContains(t, l.Err(), `"order:1"`)
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
			kit.Lock(t, kit.Background, l)
			was, err = s.ForceUnlock(kit.Background, "order:1")
			require.NoError(t, err)
			require.True(t, was)
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
		}
		for len(heard.names) > 0 {
			require.Equal(t, "order:1", <-heard.names)
		}
		order(t, client, "HSET", "lock:order:1", "status", "paid")
		err := s.Mutex("order:1").Lock(kit.Background)
		require.ErrorIs(t, err, relock.ErrNotLock)
		require.ErrorContains(t, err, `lock "order:1"`)
		require.ErrorContains(t, err, `key "lock:order:1"`)
	})
}

func TestPrefixCountsForTheRulesOfNames(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		for _, prefix := range []string{"{", "}", "{}", "{}:", "a{b", "a}:", "}{", strings.Repeat("x", 1024)} {
			_, err := relock.NewSession(kit.Background, kit.NewClient(t, at), relock.WithPrefix(prefix))
			require.ErrorIs(t, err, relock.ErrOption, prefix)
			require.ErrorContains(t, err, "WithPrefix")
			require.Less(t, len(err.Error()), 300)
		}
		for _, c := range []struct {
			prefix, name string
			bad          bool
		}{
			{"", "x", false}, {"lock:", "x", false}, {"lock:", "", true}, {"lock:", "{a}b", false}, {"lock:", "{a", true}, {"lock:", "a}", true},
			{"{shop}:", "x", false}, {"{shop}:", "{a}", false}, {"{shop}:", "", true},
			{strings.Repeat("x", 24), strings.Repeat("y", 1000), false}, {strings.Repeat("x", 25), strings.Repeat("y", 1000), true},
		} {
			s := kit.NewSession(t, at, relock.WithPrefix(c.prefix))
			what := fmt.Sprintf("%.30q before %.30q", c.prefix, c.name)
			_, errInspect := s.Inspect(kit.Background, c.name)
			_, errForce := s.ForceUnlock(kit.Background, c.name)
			for kind, of := range everyLock {
				l := of(s, c.name)
				err := kit.Receive(t, kit.Async(func() error { return l.Lock(kit.Background) }), "an answer")
				require.Equal(t, c.bad, errors.Is(err, relock.ErrName), "%s of %s: %v", kind, what, err)
				if !c.bad {
					require.NoError(t, err)
					kit.Unlock(t, kit.Background, l)
				}
			}
			require.Equal(t, c.bad, errors.Is(errInspect, relock.ErrName), what)
			require.Equal(t, c.bad, errors.Is(errForce, relock.ErrName), what)
		}
	})
}

// Members of a group exclude each other by their keys, and not by their names.
func TestGroupComparesTheKeysOfItsMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	bare, a := kit.NewSession(t, server), kit.NewSession(t, server, relock.WithPrefix("a:"))
	b := kit.NewSession(t, server, relock.WithPrefix("b:"))
	for what, g := range map[string]*relock.Group{
		"mutexes": relock.NewGroup(bare.Mutex("a:x"), a.Mutex("x")), "kinds": relock.NewGroup(bare.FairMutex("a:x"), a.RWMutex("x")),
		"redlock": relock.NewGroup(relock.NewRedlock([]*relock.Session{a}, "x"), bare.Mutex("a:x")),
	} {
		err := g.Lock(kit.Background)
		require.ErrorIs(t, err, relock.ErrOption, what)
		require.ErrorContains(t, err, `"a:x"`, what)
	}
	g := relock.NewGroup(a.Mutex("x"), b.Mutex("x"), bare.Mutex("x"), a.RWMutex("y").RLocker(), bare.RWMutex("a:y").RLocker(),
		relock.NewRedlock([]*relock.Session{b}, "z"), a.Mutex("z"))
	kit.Lock(t, kit.Background, g)
	kit.Unlock(t, kit.Background, g)
}

// Groups lock in the order of keys, whatever the prefixes of their sessions are.
func TestGroupsOfSessionsWithPrefixesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var groups []*relock.Group
	keys := []string{"a:b:1", "a:b:2", "a:3"}
	for i, prefix := range []string{"", "a:", "a:b:", "a:"} {
		s, bare := kit.NewSession(t, server, relock.WithPrefix(prefix)), kit.NewSession(t, server)
		var members []relock.Locker
		for j, key := range keys {
			if name, ok := strings.CutPrefix(key, prefix); ok && (i+j)%2 == 0 {
				members = append(members, s.Mutex(name))
			} else {
				members = append(members, bare.FairMutex(key))
			}
		}
		if i%2 == 1 {
			slices.Reverse(members)
		}
		groups = append(groups, relock.NewGroup(members...))
	}
	inside := 0
	err := kit.Together(len(groups), func(i int) error {
		for range 30 {
			if err := groups[i].Lock(kit.Background); err != nil {
				return err
			}
			inside++
			if err := groups[i].Unlock(kit.Background); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 30*len(groups), inside)
}

// Each deployment has the prefix of its session.
func TestRedlockHasTheKeysOfItsSessions(t *testing.T) {
	t.Parallel()
	var sessions []*relock.Session
	var servers []*redistest.Server
	prefixes := []string{"", "a:", "b:"}
	for _, prefix := range prefixes {
		servers = append(servers, redistest.Start(t))
		sessions = append(sessions, kit.NewSession(t, servers[len(servers)-1], relock.WithPrefix(prefix)))
	}
	l := relock.NewRedlock(sessions, "order:1")
	require.Equal(t, "order:1", l.Name())
	kit.Lock(t, kit.Background, l)
	for i, prefix := range prefixes {
		require.True(t, kit.Exists(t, kit.NewClient(t, servers[i]), prefix+"order:1"))
	}
	kit.Unlock(t, kit.Background, l)
}

// Data at the name on one of three deployments counts like one that is down; on two of them it
// ends the call.
func TestRedlockTakesADeploymentWhoseKeyIsNoLockForDown(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	l := p.redlock("order:1")
	order(t, p.clients[1], "HSET", "order:1", "status", "paid")
	kit.Lock(t, kit.Background, l)
	kit.Unlock(t, kit.Background, l)
	order(t, p.clients[2], "SET", "order:1", "x")
	mustNotBeALock(t, kit.Receive(t, kit.Async(func() error { return l.Lock(kit.Background) }), "Lock to end"))
	_, err := l.TryLock(kit.Background)
	mustNotBeALock(t, err)
	require.Equal(t, map[string]string{"status": "paid"}, kit.HashOf(t, p.clients[1], "order:1"))
}
