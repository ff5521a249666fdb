package faults_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kit.MainOfAll(m) }

// do sends a command to a server past all clients, and returns the reply.
func do(t testing.TB, s *redistest.Server, args ...string) any {
	t.Helper()
	reply, err := s.Do(args...)
	require.NoError(t, err)
	return reply
}

// contenders returns how many contenders queue for a lock.
func contenders(t testing.TB, s *redistest.Server, name string) int {
	t.Helper()
	return int(do(t, s, "ZCARD", "relock_queue:{"+name+"}").(int64))
}

// holders returns the hold ids of the lock in Redis.
func holders(t testing.TB, s *redistest.Server, name string) (ids []string) {
	t.Helper()
	for _, field := range do(t, s, "HKEYS", name).([]any) {
		if field != "mode" {
			ids = append(ids, field.(string))
		}
	}
	return ids
}

// holderID returns the hold id of an exclusive lock in Redis, empty if it is free.
func holderID(t testing.TB, s *redistest.Server, name string) string {
	t.Helper()
	ids := append(holders(t, s, name), "")
	require.LessOrEqual(t, len(ids), 2, "holders of an exclusive lock")
	return ids[0]
}

// freed waits until locks are free in Redis: for less than a lease of 30 s.
func freed(t testing.TB, s *redistest.Server, names ...string) {
	t.Helper()
	for _, name := range names {
		redistest.Eventually(t, kit.Soon, name+" to be free in Redis", func() bool { return len(holders(t, s, name)) == 0 })
	}
}

// goesOn takes and ends the lock once: things go on.
func goesOn(t testing.TB, locks ...*relock.Mutex) {
	t.Helper()
	for _, m := range locks {
		kit.Lock(t, kit.Background, m)
		require.NoError(t, m.Err())
		kit.Unlock(t, kit.Background, m)
	}
}
