package locks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// everyLock makes a lock of each type, and side of one, with that name.
var everyLock = map[string]func(s *relock.Session, name string) relock.Locker{
	"mutex": func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) },
	"fair":  func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) },
	"write": func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) },
	"read":  func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name).RLocker() },
	"group of mutexes": func(s *relock.Session, name string) relock.Locker {
		return relock.NewGroup(s.Mutex("a"), s.Mutex(name), s.Mutex("z"))
	},
	"group": func(s *relock.Session, name string) relock.Locker {
		return relock.NewGroup(s.Mutex("a"), s.FairMutex(name), s.RWMutex("z").RLocker())
	},
	"redlock": func(s *relock.Session, name string) relock.Locker {
		return relock.NewRedlock([]*relock.Session{s}, name)
	},
}

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

func TestDataOfAnApplicationIsNoLockAndStays(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		for what, command := range noLocks {
			order(t, client, command...)
			before := dump(t, client, "order:1")
			for kind, of := range everyLock {
				l := of(s, "order:1")
				mustNotBeALock(t, kit.Receive(t, kit.Async(func() error { return l.Lock(kit.Background) }), "Lock to fail"), kind+" of "+what)
				var err error
				redistest.Eventually(t, kit.Quickly, "the other members to be free", func() bool {
					var ok bool
					ok, err = l.TryLock(kit.Background)
					require.False(t, ok)
					return err != nil
				})
				mustNotBeALock(t, err, kind+" of "+what)
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
			}
			_, err := s.Inspect(kit.Background, "order:1")
			mustNotBeALock(t, err, what)
			was, err := s.ForceUnlock(kit.Background, "order:1")
			mustNotBeALock(t, err, what)
			require.False(t, was)
			// The other members of the groups are released in the background.
			redistest.Eventually(t, kit.Quickly, "nothing else to be there", func() bool {
				return fmt.Sprint(kit.Keys(t, client)) == "[order:1]"
			})
			require.Equal(t, before, dump(t, client, "order:1"), what)
			order(t, client, "DEL", "order:1")
		}
	})
}

// An application overwrites the key of a lock that somebody holds and others wait for.
func TestWaiterFindsThatTheKeyIsNoLockAnyMore(t *testing.T) {
	t.Parallel()
	for kind, of := range everyLock {
		for what, put := range map[string]string{"hash": "return redis.call('hset', KEYS[1], 'status', 'paid')", "string": "return redis.call('set', KEYS[1], 'x')"} {
			t.Run(kind+", "+what, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				s, client := kit.NewSession(t, server), kit.NewClient(t, server)
				order(t, client, "HSET", "order:1", "mode", "write", "4f1b9a52-8d9e-4c55-9d0c-000000000001:1:write", "1")
				asked := server.CommandStats()["evalsha"]
				got := kit.Async(func() error { return of(s, "order:1").Lock(kit.Background) })
				redistest.Eventually(t, kit.Soon, "the waiter to find it taken", func() bool { return server.CommandStats()["evalsha"] >= asked+2 })
				require.NoError(t, client.Do(kit.Background, client.B().Eval().
					Script("redis.call('del', KEYS[1]) "+put).Numkeys(1).Key("order:1").Build()).Error())
				before := dump(t, client, "order:1")
				mustNotBeALock(t, kit.Receive(t, got, "the waiter to end"))
				redistest.Eventually(t, kit.Quickly, "nothing else to be there", func() bool {
					for _, key := range kit.Keys(t, client) {
						if key != "order:1" {
							return false
						}
					}
					return true
				})
				require.Equal(t, before, dump(t, client, "order:1"))
			})
		}
	}
}

// What Redisson's RLock, RFairLock and RReadWriteLock store is a lock, for every type.
func TestLocksOfRedissonAreTakenAndNoData(t *testing.T) {
	const thread = "4f1b9a52-8d9e-4c55-9d0c-000000000001:57"
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		for what, hash := range map[string][]string{
			"RLock, RFairLock": {thread, "2"}, "read lock": {"mode", "read", thread, "1"}, "write lock": {"mode", "write", thread + ":write", "1"},
			"RLock, field added": {thread, "1", "status", "paid"},
		} {
			for kind, of := range everyLock {
				order(t, client, append([]string{"HSET", "order:1"}, hash...)...)
				order(t, client, "PEXPIRE", "order:1", "60000")
				l := of(s, "order:1")
				ok, err := l.TryLock(kit.Background)
				require.NoError(t, err, "%s of a %s", kind, what)
				require.Equal(t, kind == "read" && what == "read lock", ok, "%s of a %s", kind, what)
				if ok {
					kit.Unlock(t, kit.Background, l)
				}
				state, err := s.Inspect(kit.Background, "order:1")
				require.NoError(t, err)
				require.Len(t, state.Holders, 1, what)
				require.Equal(t, thread, state.Holders[0].ID)
				was, err := s.ForceUnlock(kit.Background, "order:1")
				require.NoError(t, err)
				require.True(t, was)
				order(t, client, "DEL", "order:1")
			}
		}
	})
}

// A field that an application adds to the key of a held lock changes nothing for its holder.
// It stays after Unlock and ForceUnlock, and expires with the lease.
func TestFieldAddedToAHeldLockStaysAndChangesNothing(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other, client := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewClient(t, at)
		for kind, of := range everyLock {
			for _, force := range []bool{false, true} {
				l := of(s, "order:1")
				kit.Lock(t, kit.Background, l)
				order(t, client, "HSET", "order:1", "status", "paid")
				ok, err := of(other, "order:1").TryLock(kit.Background)
				require.NoError(t, err, kind)
				require.Equal(t, kind == "read", ok)
				if ok {
					require.NoError(t, other.Close(kit.Background))
					other = kit.NewSession(t, at)
				}
				if force {
					was, err := other.ForceUnlock(kit.Background, "order:1")
					require.NoError(t, err, kind)
					require.True(t, was)
					kit.Receive(t, l.Done(), "the holder to be told")
					require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost, kind)
				} else {
					kit.Unlock(t, kit.Background, l)
				}
				require.Equal(t, map[string]string{"status": "paid"}, kit.HashOf(t, client, "order:1"), kind)
				require.Positive(t, pttl(t, client, "order:1"))
				mustNotBeALock(t, of(s, "order:1").Lock(kit.Background), kind)
				order(t, client, "DEL", "order:1")
			}
		}
	})
}

// Other names' waiters and holds go on beside one whose key is no lock.
func TestKeyThatIsNoLockHarmsNoOtherLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, holder, client := kit.NewSession(t, server), kit.NewSession(t, server), kit.NewClient(t, server)
	held := holder.FairMutex("order:2")
	kit.Lock(t, kit.Background, held)
	first := kit.Async(func() error { return s.FairMutex("order:2").Lock(kit.Background) })
	waiting(t, s, "order:2", 1)
	ctx, cancel := context.WithTimeout(kit.Background, kit.Soon)
	defer cancel()
	for range 20 {
		order(t, client, "HSET", "order:1", "status", "paid")
		mustNotBeALock(t, s.FairMutex("order:1").Lock(ctx))
		order(t, client, "DEL", "order:1")
		l := s.FairMutex("order:1")
		kit.Lock(t, ctx, l)
		kit.Unlock(t, ctx, l)
	}
	kit.Unlock(t, kit.Background, held)
	require.NoError(t, kit.Receive(t, first, "the waiter to get in"))
}
