package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

var oddNames = []string{
	"plain", "a:b:c", "{tag}", "{tag}:x", "x{tag}z", "a{b}{c}", "{a}:rwlock_timeout:1", "mode",
	"Straße 🔒 漢字", "{ключ}:é", "100%+&=\"'\\", "redisson_lock__channel:{x}",
}

// Names with braces, colons and letters of any script mean the same lock to both.
func TestNamesMeanTheSameLock(t *testing.T) {
	eachPair(t, 30*time.Second, func(t *testing.T, _ where, g, j *peer) { meet(t, g, j) })
}

// In a cluster, where messages go through the shards.
func TestClusterMeansTheSameLocks(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		at := where{"cluster", redistest.StartCluster(t, 3, 0).Nodes()[0].Addr(), 30 * time.Second}
		meet(t, at.start(t, ""), at.start(t, version))
	})
}

// meet has both sides exclude and wake each other under every name, far within a lease. Who is not woken tries again.
func meet(t *testing.T, g, j *peer) {
	for _, name := range oddNames {
		for _, kind := range []string{"lock", "fair", "fenced", "write", "read"} {
			for _, who := range [][2]*peer{{g, j}, {j, g}} {
				wanted := rival(kind)
				who[0].do("holder", "lock", kind, name)
				require.False(t, who[1].gets("waiter", wanted, name), "%q: %s held by %v", name, kind, who[0])
				if !wakes(who[0], who[1], wanted) {
					who[0].do("holder", "unlock", kind, name)
					require.True(t, who[1].gets("waiter", wanted, name), "%q: %s released by %v", name, kind, who[0])
					who[1].do("waiter", "unlock", wanted, name)
					continue
				}
				waits := who[1].begin("waiter", "lock", wanted, name)
				waits.waits(15 * time.Millisecond)
				start := time.Now()
				who[0].do("holder", "unlock", kind, name)
				waits.must()
				require.Less(t, time.Since(start), 5*time.Second, "%q: %v waited for the %s lock", name, who[1], kind)
				who[1].do("waiter", "unlock", wanted, name)
			}
		}
	}
}

// Keys that Redisson keeps beside a lock for itself are none of relock's business.
func TestPrivateKeysOfRedissonAreLeftAlone(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	s := kit.NewSession(t, server, relock.WithLease(time.Second))

	waiter := "d1b1a4c6-0f62-4a51-9e51-6f3a1b0c9d11:47"
	private := [][]string{
		{"SET", "redisson_unlock_latch:{x}:0123456789abcdef0123456789abcdef", "1"},
		{"SET", "redisson_lock_token:{x}", "7"},
		{"RPUSH", "redisson_lock_queue:{x}", waiter},
		{"ZADD", "redisson_lock_timeout:{x}", "99999999999999", waiter},
	}
	for _, command := range private {
		_, err := server.Do(command...)
		require.NoError(t, err)
	}
	dump := func() (values []any) { // byte by byte
		for _, command := range private {
			value, err := server.Do("DUMP", command[1])
			require.NoError(t, err)
			values = append(values, value)
		}
		require.NotContains(t, values, nil)
		return values
	}
	before := dump()
	for range 3 {
		for _, l := range []relock.Locker{s.Mutex("x"), s.FairMutex("x"), s.RWMutex("x"), s.RWMutex("x").RLocker(),
			relock.NewGroup(s.Mutex("x"), s.Mutex("y")), s.Mutex("x", relock.WithFixedLease(time.Second))} {
			require.NoError(t, relock.Do(ctx, l, func(ctx context.Context) error {
				_, err := s.Inspect(ctx, "x")
				return err
			}))
			require.NoError(t, l.Lock(ctx))
			opened, err := s.ForceUnlock(ctx, "x")
			require.NoError(t, err)
			require.True(t, opened)
			_ = l.Unlock(ctx) // the other member of a group
		}
	}
	require.Equal(t, before, dump())
}
