package locks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// noLocks are the commands that put there what is no lock.
var noLocks = map[string][]string{
	"hash":         {"HSET", "order:1", "status", "paid", "product:1001", "2"},
	"hash, mode":   {"HSET", "order:1", "mode", "read", "volume", "3"},
	"empty field":  {"HSET", "order:1", "", ""},
	"string":       {"SET", "order:1", "eiu7Lmq0"},
	"empty string": {"SET", "order:1", ""},
	"list":         {"RPUSH", "order:1", "1"},
	"sorted set":   {"ZADD", "order:1", "1", "1"},
}

func dump(t testing.TB, client rueidis.Client, key string) string {
	t.Helper()
	text, err := client.Do(kit.Background, client.B().Dump().Key(key).Build()).ToString()
	require.NoError(t, err)
	return fmt.Sprint(text, pttl(t, client, key))
}

// mustNotBeALock checks an error, and that it says what to do.
func mustNotBeALock(t testing.TB, err error, what ...any) {
	t.Helper()
	require.ErrorIs(t, err, relock.ErrNotLock, what...)
	require.ErrorContains(t, err, `"order:1"`, what...)
	require.ErrorContains(t, err, "WithPrefix", what...)
	require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
	require.NotContains(t, err.Error(), "\n")
}

func TestApplicationDataIsNoLockAndStays(t *testing.T) {
	t.Parallel()
	for what, put := range noLocks {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server, waits := redistest.Start(t), newWaits()
			s, client := kit.NewSession(t, server, relock.WithObserver(waits)), kit.NewClient(t, server)
			for _, k := range kinds {
				l := k.on(s, "order:1")
				// An application overwrites the key of a lock that somebody holds and others wait for.
				const holder = "4f1b9a52-8d9e-4c55-9d0c-000000000001:1"
				if k.name == "Semaphore" {
					order(t, client, "ZADD", "order:1", "-1", "permits", "0", ":"+holder, "9000000000000", holder)
				} else {
					order(t, client, "HSET", "order:1", "mode", "write", holder+":write", "1")
				}
				got := kit.Async(func() error { return l.Lock(kit.Background) })
				kit.Receive(t, waits.c, "the waiter to find it taken")
				const overwrite = "redis.call('del', KEYS[1]) return redis.call(unpack(ARGV))"
				order(t, client, append([]string{"EVAL", overwrite, "1", "order:1"}, put...)...)
				before := dump(t, client, "order:1")
				mustNotBeALock(t, kit.Receive(t, got, "the waiter to end"), k.name)
				keysLeft(t, 1, client)

				mustNotBeALock(t, kit.Receive(t, kit.Async(func() error { return l.Lock(kit.Background) }), "Lock to fail"), k.name)
				var err error
				redistest.Eventually(t, kit.Quickly, "the other members to be free", func() bool {
					var ok bool
					ok, err = l.TryLock(kit.Background)
					require.False(t, ok)
					return err != nil
				})
				mustNotBeALock(t, err, k.name)
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
				_, err = s.Inspect(kit.Background, "order:1")
				mustNotBeALock(t, err)
				was, err := s.ForceUnlock(kit.Background, "order:1")
				mustNotBeALock(t, err)
				require.False(t, was)
				keysLeft(t, 1, client)
				require.Equal(t, before, dump(t, client, "order:1"), k.name)
				order(t, client, "DEL", "order:1")
			}
		})
	}
}
