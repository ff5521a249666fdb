package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

func TestInspect(t *testing.T) {
	const uuid, other = "4f1b9a52-8d9e-4c55-9d0c-000000000001", "4f1b9a52-8d9e-4c55-9d0c-000000000002"
	cases := map[string]struct {
		hash []string // fields and values
		ttl  string
		want relock.State
	}{
		"free": {},
		"held by a thread of Redisson": {
			[]string{uuid + ":57", "3"}, "60000",
			relock.State{Mode: relock.Exclusive, Holders: []relock.Holder{{ID: uuid + ":57", Session: uuid, Count: 3}}},
		},
		"without expiry": {
			[]string{uuid + ":1", "1"}, "",
			relock.State{Mode: relock.Exclusive, Holders: []relock.Holder{{ID: uuid + ":1", Session: uuid, Count: 1}}},
		},
		"read": {
			[]string{"mode", "read", other + ":2", "1", uuid + ":1", "2"}, "60000",
			relock.State{Mode: relock.Shared, Holders: []relock.Holder{
				{ID: uuid + ":1", Session: uuid, Count: 2}, {ID: other + ":2", Session: other, Count: 1},
			}},
		},
		"written": {
			[]string{"mode", "write", uuid + ":1:write", "2"}, "60000",
			relock.State{Mode: relock.Exclusive, Holders: []relock.Holder{{ID: uuid + ":1", Session: uuid, Count: 2}}},
		},
		"written and read by the same": {
			[]string{"mode", "write", uuid + ":1:write", "2", uuid + ":1", "1"}, "60000",
			relock.State{Mode: relock.Exclusive, Holders: []relock.Holder{{ID: uuid + ":1", Session: uuid, Count: 3}}},
		},
	}
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		for name, c := range cases {
			if c.hash != nil {
				order(t, client, append([]string{"HSET", "lock"}, c.hash...)...)
			}
			if c.ttl != "" {
				order(t, client, "PEXPIRE", "lock", c.ttl)
			}
			before := kit.HashOf(t, client, "lock")
			got := inspect(t, s, "lock")
			switch {
			case c.hash == nil:
				require.Zero(t, got.TTL, name)
			case c.ttl == "":
				require.Negative(t, got.TTL, name)
			default:
				require.InDelta(t, time.Minute, got.TTL, float64(20*time.Second), name)
			}
			got.TTL = 0
			require.Equal(t, c.want, got, name)
			require.Equal(t, before, kit.HashOf(t, client, "lock"), "it changes nothing")
			order(t, client, "DEL", "lock")
		}
	})
}

func TestModesHaveNames(t *testing.T) {
	for mode, text := range map[relock.Mode]string{
		relock.Unlocked: "unlocked", relock.Exclusive: "exclusive", relock.Shared: "shared", 99: "unknown",
	} {
		require.Equal(t, text, mode.String())
	}
}

// A lock that a Redisson client holds is a lock for us, and is waited for like one.
func TestALockOfRedissonExcludes(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		release := map[string]func(){
			"unlocked": func() { // as Redisson does
				order(t, client, "DEL", "lock")
				order(t, client, "PUBLISH", "redisson_lock__channel:{lock}", "0")
			},
			"forced open": func() {
				was, err := s.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
				require.True(t, was)
			},
		}
		for _, release := range release {
			order(t, client, "HSET", "lock", "4f1b9a52-8d9e-4c55-9d0c-000000000001:57", "2")
			order(t, client, "PEXPIRE", "lock", "600000")
			m := s.Mutex("lock")
			require.False(t, kit.TryLock(t, kit.Background, m))
			require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrNotHeld)
			got := kit.Async(func() error { return m.Lock(kit.Background) })
			kit.Awaited(t, client, "lock")
			release()
			require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
			kit.Unlock(t, kit.Background, m)
		}
	})
}

func TestForceUnlockOpensEveryKindOfLock(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		for what, hash := range map[string][]string{
			"exclusive": {"4f1b9a52-8d9e-4c55-9d0c-000000000001:1", "2"},
			"read":      {"mode", "read", "4f1b9a52-8d9e-4c55-9d0c-000000000001:1", "1"},
			"written":   {"mode", "write", "4f1b9a52-8d9e-4c55-9d0c-000000000001:1:write", "1"},
		} {
			order(t, client, append([]string{"HSET", "lock"}, hash...)...)
			was, err := s.ForceUnlock(kit.Background, "lock")
			require.NoError(t, err, what)
			require.True(t, was, what)
			require.Empty(t, kit.Keys(t, client), what)
		}
	})
}
