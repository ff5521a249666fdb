package locks_test

import (
	"context"
	"strings"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Everything in Redis has the prefix, and users see names without it.
func TestPrefixIsBeforeAllKeysAndChannels(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	prefix, waits := relock.WithPrefix("lock:"), newWaits()
	s, other := kit.NewSession(t, server, prefix), kit.NewSession(t, server, prefix, relock.WithObserver(waits))
	client := kit.NewClient(t, server)
	order(t, client, "HSET", "order:1", "status", "paid")
	before := dump(t, client, "order:1")
	for _, k := range kinds {
		l := k.on(s, "order:1")
		if named, ok := l.(interface{ Name() string }); ok {
			require.Equal(t, "order:1", named.Name())
		}
		kit.Lock(t, kit.Background, l)
		wanting := k.on(other, "order:1")
		if k.reads {
			wanting = other.RWMutex("order:1")
		}
		got := kit.Async(func() error { return wanting.Lock(kit.Background) })
		kit.Receive(t, waits.c, "the waiter to wait")
		for _, key := range kit.Keys(t, client) {
			require.True(t, key == "order:1" || strings.HasPrefix(key, "lock:") || strings.Contains(key, "{lock:"), "%s: key %q", k.name, key)
		}
		require.True(t, kit.Exists(t, client, "lock:order:1"), k.name)
		channels, err := client.Do(kit.Background, client.B().PubsubChannels().Build()).AsStrSlice()
		require.NoError(t, err)
		for _, c := range channels {
			require.True(t, strings.HasPrefix(c, "relock_session:") || strings.Contains(c, "{lock:"), "%s: channel %q", k.name, c)
		}
		kit.Unlock(t, kit.Background, l)
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"), k.name)
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

func TestUsersSeeNamesWithoutThePrefix(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		heard := heardNames{names: make(chan string, 100)}
		s := kit.NewSession(t, at, relock.WithPrefix("lock:"), relock.WithObserver(heard))
		bare, client := kit.NewSession(t, at), kit.NewClient(t, at)
		for _, k := range kinds {
			l := k.on(s, "order:1")
			if _, named := l.(interface{ Name() string }); !named {
				continue
			}
			same := relock.Locker(bare.RWMutex("lock:order:1"))
			if k.name == "Semaphore" {
				same = k.on(bare, "lock:order:1")
			}
			require.ErrorContains(t, l.Unlock(kit.Background), `"order:1"`)
			for _, by := range []*relock.Session{s, bare} {
				kit.Lock(t, kit.Background, l)
				require.Len(t, kit.HoldersOf(t, s, "order:1"), 1, k.name)
				require.Equal(t, relock.Unlocked, inspect(t, bare, "order:1").Mode, "another lock")
				require.False(t, kit.TryLock(t, kit.Background, same), "the same lock")
				was, err := by.ForceUnlock(kit.Background, map[*relock.Session]string{s: "order:1", bare: "lock:order:1"}[by])
				require.NoError(t, err)
				require.True(t, was)
				kit.Receive(t, l.Done(), k.name+": the holder to be told") // by a message with the key
				require.ErrorContains(t, l.Err(), `"order:1"`)
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
			}
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

func TestPrefixThatNoNameCouldFollowIsRefused(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		for _, prefix := range []string{"{", "}", "{}", "{}:", "a{b", "a}:", "}{", strings.Repeat("x", 1024)} {
			_, err := relock.NewSession(kit.Background, kit.NewClient(t, at), relock.WithPrefix(prefix))
			require.ErrorIs(t, err, relock.ErrOption, prefix)
			require.ErrorContains(t, err, "WithPrefix")
			require.Less(t, len(err.Error()), 300)
		}
	})
}
