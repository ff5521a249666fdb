package faults_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// unlockIsLost ends a lost hold.
func unlockIsLost(t testing.TB, m *relock.Mutex) {
	t.Helper()
	require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
}

// holders returns the hold ids of the lock in Redis.
func holders(t testing.TB, s *redistest.Server, name string) (ids []string) {
	t.Helper()
	reply, err := s.Do("HKEYS", name)
	require.NoError(t, err)
	for _, field := range reply.([]any) {
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

// freed waits until the lock is free in Redis: for less than a lease of 30 s.
func freed(t testing.TB, s *redistest.Server, name string) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, name+" to be free in Redis", func() bool { return len(holders(t, s, name)) == 0 })
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

func TestMain(m *testing.M) { kit.MainOfAll(m) }
