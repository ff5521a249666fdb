package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// One waiter stands still when its turn comes: it costs the others no more than its
// claim, here a second. When it goes on it does not believe to have the lock, which
// others have had since, and queues again.
func TestFairMutexPassesOverTheFrozen(t *testing.T) {
	t.Parallel()
	const claim = time.Second
	q := newLine(t, 2, claim)
	for range rounds(t, 2) {
		frozen := q.process()
		kit.Lock(t, kit.Background, q.first)
		q.join(q.all[0], 0)
		q.join(frozen, 1)
		q.join(q.all[1], 2)
		q.join(q.all[0], 3, "hold")
		q.join(q.all[1], 4)
		require.NoError(t, frozen.Freeze())
		start := time.Now()
		kit.Unlock(t, kit.Background, q.first)
		require.Equal(t, []int{0, 2, 3}, q.turns(3))
		took := time.Since(start)
		t.Log("the frozen one cost", took)
		require.Greater(t, took, claim/2, "it was frozen with the claim")
		require.Less(t, took, claim+kit.Quickly)

		require.NoError(t, frozen.Thaw())
		q.until(2) // the fourth, and the one that was frozen
		require.Equal(t, []int{0, 2, 3}, q.turns(3))
		q.tell(3, "unlock")
		require.Equal(t, []int{0, 2, 3, 4, 1}, q.turns(5))
		require.Greater(t, q.saidAt(1, "got"), q.saidAt(3, "done"))
		q.done(0, 1, 2, 4)
		frozen.Kill()
		q.clear()
	}
}

// A holder stands still beyond its lease: the first in the queue gets the lock, and the
// holder is told when it goes on.
func TestFairMutexThatWasFrozenWithTheLockIsLost(t *testing.T) {
	t.Parallel()
	const lease = 500 * time.Millisecond
	q := newLine(t, 1, lease)
	holder := q.process()
	q.of[0] = holder
	q.tell(0, "hold")
	q.said(0, "got")
	q.join(q.all[0], 1, "hold")
	require.NoError(t, holder.Freeze())
	require.Equal(t, []int{0, 1}, q.turns(2))
	require.NoError(t, holder.Thaw())
	lost := q.saidAt(0, "lost")
	got := q.saidAt(1, "got")
	t.Log("after the other got it, the loss was told after", time.Duration(lost-got))
	q.tell(0, "unlock")
	require.Contains(t, q.said(0, "done"), "lost", "the unlock of a lost hold")
	q.tell(1, "unlock")
	q.done(1)
}
