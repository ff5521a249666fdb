package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// Redis stands still for longer than a connection may be silent, and the lock is
// unlocked meanwhile: nobody loses the place in the queue.
func TestFairMutexKeepsItsOrderWhenRedisStalls(t *testing.T) {
	t.Parallel()
	const waiters, stall = 12, 2 * time.Second
	q := newLine(t, 4, 30*time.Second)
	for range rounds(t, 3) {
		kit.Lock(t, kit.Background, q.first)
		for n := range waiters {
			q.join(q.all[n%len(q.all)], n)
		}
		require.NoError(t, q.server.Freeze())
		unlocked := kit.Async(func() error { return q.first.Unlock(kit.Background) })
		time.Sleep(stall)
		require.NoError(t, q.server.Thaw())
		require.NoError(t, kit.Receive(t, unlocked, "the unlock"))
		require.Equal(t, span(waiters, anyOf), q.turns(waiters))
		q.done(span(waiters, anyOf)...)
		q.clear()
	}
}
