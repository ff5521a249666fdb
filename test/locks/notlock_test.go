package locks_test

import (
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
	const script = `local kind = redis.call('type', KEYS[1]).ok
local read = {hash = {'hgetall'}, string = {'get'}, list = {'lrange', 0, -1}, zset = {'zrange', 0, -1, 'withscores'}}
local c = read[kind] or {'exists'}
local all = redis.call(c[1], KEYS[1], unpack(c, 2))
if type(all) ~= 'table' then all = {all} end
return kind .. ' ' .. table.concat(all, ' ') .. ' ' .. redis.call('pttl', KEYS[1])`
	text, err := client.Do(kit.Background, client.B().Eval().Script(script).Numkeys(1).Key(key).Build()).ToString()
	require.NoError(t, err)
	return text
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
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		for what, command := range noLocks {
			order(t, client, command...)
			before := dump(t, client, "order:1")
			for _, k := range kinds {
				l := k.on(s, "order:1")
				mustNotBeALock(t, kit.Receive(t, kit.Async(func() error { return l.Lock(kit.Background) }), "Lock to fail"), k.name+" of "+what)
				var err error
				redistest.Eventually(t, kit.Quickly, "the other members to be free", func() bool {
					var ok bool
					ok, err = l.TryLock(kit.Background)
					require.False(t, ok)
					return err != nil
				})
				mustNotBeALock(t, err, k.name+" of "+what)
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
			}
			_, err := s.Inspect(kit.Background, "order:1")
			mustNotBeALock(t, err, what)
			was, err := s.ForceUnlock(kit.Background, "order:1")
			mustNotBeALock(t, err, what)
			require.False(t, was)
			// The other members of the groups are released in the background.
			keysLeft(t, 1, client)
			require.Equal(t, before, dump(t, client, "order:1"), what)
			order(t, client, "DEL", "order:1")
		}
	})
}

// An application overwrites the key of a lock that somebody holds and others wait for.
func TestWaiterFindsThatTheKeyIsNoLock(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		for what, put := range map[string]string{
			"hash":   "return redis.call('hset', KEYS[1], 'status', 'paid')",
			"string": "return redis.call('set', KEYS[1], 'x')",
		} {
			t.Run(k.name+", "+what, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				waits := newWaits()
				s, client := kit.NewSession(t, server, relock.WithObserver(waits)), kit.NewClient(t, server)
				order(t, client, "HSET", "order:1", "mode", "write", "4f1b9a52-8d9e-4c55-9d0c-000000000001:1:write", "1")
				got := kit.Async(func() error { return k.on(s, "order:1").Lock(kit.Background) })
				kit.Receive(t, waits.c, "the waiter to find it taken")
				require.NoError(t, client.Do(kit.Background, client.B().Eval().
					Script("redis.call('del', KEYS[1]) "+put).Numkeys(1).Key("order:1").Build()).Error())
				before := dump(t, client, "order:1")
				mustNotBeALock(t, kit.Receive(t, got, "the waiter to end"))
				keysLeft(t, 1, client)
				require.Equal(t, before, dump(t, client, "order:1"))
			})
		}
	}
}
