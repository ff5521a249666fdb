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

// holderID returns the hold id of the lock in Redis, empty if it is free.
func holderID(t testing.TB, s *redistest.Server, name string) string {
	t.Helper()
	reply, err := s.Do("HKEYS", name)
	require.NoError(t, err)
	fields, _ := reply.([]any)
	if len(fields) == 0 {
		return ""
	}
	require.Len(t, fields, 1, "holders of an exclusive lock")
	return fields[0].(string)
}

// freed waits until the lock is free in Redis: for less than a lease of 30 s.
func freed(t testing.TB, s *redistest.Server, name string) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, name+" to be free in Redis", func() bool { return holderID(t, s, name) == "" })
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
