package kit

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
const Slack = 700 * time.Millisecond

// Proxied starts a server with a proxy in front of it.
func Proxied(t testing.TB, args ...string) (*redistest.Server, *redistest.Proxy) {
	t.Helper()
	server := redistest.Start(t, args...)
	return server, redistest.NewProxy(t, server.Addr())
}

// Deadliner is a Locker that tells its deadline.
type Deadliner interface {
	relock.Locker
	Deadline() (time.Time, bool)
}

// WatchLoss waits until m's hold is lost, and checks that this was told by the last
// deadline that m had promised, which it returns.
func WatchLoss(t testing.TB, m Deadliner) time.Time {
	t.Helper()
	done, watch := m.Done(), StartWatch()
	var deadline time.Time
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for late := time.After(Soon); ; {
		if d, ok := m.Deadline(); ok {
			deadline = d
		}
		select {
		case <-done:
			over := time.Since(deadline) - watch.Held()
			require.False(t, deadline.IsZero(), "the lock was not held")
			require.Less(t, over, Slack, "told of the loss that long after the deadline")
			require.ErrorIs(t, m.Err(), relock.ErrLost)
			return deadline
		case <-late:
			t.Fatalf("not told of the loss %v after the deadline", time.Since(deadline))
		case <-ticker.C:
		}
	}
}

// LostOrNil passes the two results that Unlock may have under faults.
func LostOrNil(err error) error {
	if errors.Is(err, relock.ErrLost) {
		return nil
	}
	return err
}

// FencedLocker is an exclusive lock of any kind.
type FencedLocker interface {
	relock.Locker
	FencingToken() int64
	Deadline() (time.Time, bool)
}
