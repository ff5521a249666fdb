package relock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What the tests of faults share. Their leases are short: slack is what is done besides
// may add to a time, and well below every lease that a time is compared with. What the
// machine adds is taken off before; see stopwatch.
const slack = 700 * time.Millisecond

// proxied starts a server with a proxy in front of it.
func proxied(t testing.TB, args ...string) (*redistest.Server, *redistest.Proxy) {
	t.Helper()
	server := redistest.Start(t, args...)
	return server, redistest.NewProxy(t, server.Addr())
}

// deadliner is a Locker that tells its deadline.
type deadliner interface {
	relock.Locker
	Deadline() (time.Time, bool)
}

// watchLoss waits until m's hold is lost, and checks that this was told by the last
// deadline that m had promised, which it returns.
func watchLoss(t testing.TB, m deadliner) time.Time {
	t.Helper()
	done, watch := m.Done(), startWatch()
	var deadline time.Time
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for late := time.After(soon); ; {
		if d, ok := m.Deadline(); ok {
			deadline = d
		}
		select {
		case <-done:
			over := time.Since(deadline) - watch.held()
			require.False(t, deadline.IsZero(), "the lock was not held")
			require.Less(t, over, slack, "told of the loss that long after the deadline")
			require.ErrorIs(t, m.Err(), relock.ErrLost)
			return deadline
		case <-late:
			t.Fatalf("not told of the loss %v after the deadline", time.Since(deadline))
		case <-ticker.C:
		}
	}
}

// unlockIsLost ends a lost hold and checks that this takes no time.
func unlockIsLost(t testing.TB, m *relock.Mutex) {
	t.Helper()
	watch := startWatch()
	require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
	require.Less(t, watch.took(), slack, "Unlock of a lost hold")
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
	watch := startWatch()
	redistest.Eventually(t, within+soon, name+" to be free in Redis", func() bool { return holderID(t, s, name) == "" })
	require.LessOrEqual(t, watch.took(), within+poll, name+" to be free in Redis")
}

// goesOn takes and ends the lock once: things go on.
func goesOn(t testing.TB, locks ...*relock.Mutex) {
	t.Helper()
	for _, m := range locks {
		lock(t, background, m)
		require.NoError(t, m.Err())
		unlock(t, background, m)
	}
}

// lostOrNil passes the two results that Unlock may have under faults.
func lostOrNil(err error) error {
	if errors.Is(err, relock.ErrLost) {
		return nil
	}
	return err
}
