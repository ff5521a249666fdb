package locks_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What a hand-off costs the server, all that goes with it included, does not grow with
// the queue: waiters queue again as soon as they have had the lock, and so many of them
// are always there.
func TestFairMutexHandOffCostsTheSameInALongQueue(t *testing.T) {
	t.Parallel()
	const few, many, most = 10, 1000, 1.5
	server := redistest.Start(t)
	sessions := []*relock.Session{kit.NewSession(t, server), kit.NewSession(t, server), kit.NewSession(t, server)}
	costOf(t, server, sessions, few) // the server knows the scripts
	a, b := costOf(t, server, sessions, few), costOf(t, server, sessions, many)
	t.Logf("%d waiters: %v, %d waiters: %v", few, a, many, b)
	require.LessOrEqual(t, b.commands/a.commands, most, "commands, those within scripts included")
	require.LessOrEqual(t, b.scripts/a.scripts, most)
}

// cost is that of one hand-off to the server.
type cost struct{ commands, scripts float64 }

// costOf has so many goroutines queue for a FairMutex again and again, and measures
// some of the hand-offs amid that.
func costOf(t testing.TB, server *redistest.Server, sessions []*relock.Session, waiters int) cost {
	t.Helper()
	const handOffs = 500
	ctx, stop := context.WithCancelCause(kit.Background)
	var count atomic.Int64
	held := sessions[0].FairMutex("lock")
	kit.Lock(t, kit.Background, held)
	done := kit.Async(func() error {
		return kit.Together(waiters, func(i int) error {
			m := sessions[i%len(sessions)].FairMutex("lock")
			for {
				if err := m.Lock(ctx); err != nil {
					return ignore(err, kit.ErrStop)
				}
				count.Add(1)
				if err := m.Unlock(kit.Background); err != nil {
					return err
				}
			}
		})
	})
	waiting(t, sessions[0], "lock", waiters)
	kit.Unlock(t, kit.Background, held)
	until := func(n int64) (int64, map[string]int64) {
		redistest.Eventually(t, 3*kit.Soon, "the hand-offs", func() bool { return count.Load() >= n })
		return count.Load(), server.CommandStats()
	}
	from, stats := until(int64(waiters) / 2) // not the first, which find everything fresh
	to, after := until(from + handOffs)
	stop(kit.ErrStop)
	require.NoError(t, kit.Receive(t, done, "the waiters to leave"))
	waiting(t, sessions[0], "lock", 0)
	n := to - from
	var c cost
	for name, calls := range after {
		c.commands += float64(calls-stats[name]) / float64(n)
	}
	c.scripts = float64(after["evalsha"]-stats["evalsha"]) / float64(n)
	return c
}
