package faults_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// unlockIsLost ends a lost hold and checks that this takes no time.
func unlockIsLost(t testing.TB, m *relock.Mutex) {
	t.Helper()
	watch := kit.StartWatch()
	require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
	require.Less(t, watch.Took(), kit.Slack, "Unlock of a lost hold")
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

// freed waits until the lock is free in Redis.
func freed(t testing.TB, s *redistest.Server, name string, within time.Duration) {
	t.Helper()
	const poll = 20 * time.Millisecond // between two looks
	watch := kit.StartWatch()
	redistest.Eventually(t, within+kit.Soon, name+" to be free in Redis", func() bool { return holderID(t, s, name) == "" })
	require.LessOrEqual(t, watch.Took(), within+poll, name+" to be free in Redis")
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
