package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A process stands still beyond its lease with one side of the lock, which the other
// side gets meanwhile. When it goes on it finds out at its first look, all its readers
// do, and disturbs nobody.
func TestRWMutexFrozenPastItsLeaseFindsItselfLost(t *testing.T) {
	const lease = 500 * time.Millisecond
	eachPair(t, func(t *testing.T, holder, waiter side) {
		server := redistest.Start(t)
		s := kit.NewSession(t, server)
		child := rwChild(t, server, lease)
		which := []string{string(holder) + "1", string(holder) + "2", string(holder) + "4"}
		if holder == writing {
			which = which[:1]
		}
		for _, w := range which {
			kit.Tell(t, child, "lock "+w, "locked")
		}
		require.NoError(t, child.Freeze())
		m := waiter.of(s.RWMutex("lock"))
		kit.Lock(t, kit.Background, m)
		mine := kit.HoldersOf(t, s, "lock")
		require.Len(t, mine, 1)
		require.Equal(t, s.ID(), mine[0].Session)

		require.NoError(t, child.Thaw())
		for i, w := range which {
			if i == 0 { // the others by their unlock
				require.Equal(t, w+" true true", kit.Tell(t, child, "state "+w, "state"))
			}
		}
		for _, w := range which {
			require.Equal(t, w+" false true", kit.Tell(t, child, "unlock "+w, "unlocked"))
			require.Equal(t, w+" false false", kit.Tell(t, child, "unlock "+w, "unlocked"))
		}
		require.NoError(t, m.Err())
		require.Equal(t, mine, kit.HoldersOf(t, s, "lock"))

		// Things go on: it gets in when the lock is free again.
		w := string(holder) + "2"
		require.NoError(t, child.Send("wait "+w))
		kit.Unlock(t, kit.Background, m)
		_, err := child.Expect("locked "+w, kit.Soon)
		require.NoError(t, err)
		mustBeQuiet(t, kit.NewClient(t, server), "lock", s)
	})
}

// It need not ask.
func TestRWMutexFrozenPastItsLeaseIsReported(t *testing.T) {
	const lease = 400 * time.Millisecond
	eachSide(t, func(t *testing.T, holder, other side) {
		server := redistest.Start(t)
		child := rwChild(t, server, lease)
		kit.Tell(t, child, "lock "+string(holder)+"1", "locked")
		if holder == reading {
			kit.Tell(t, child, "lock reader2", "locked")
		}
		require.NoError(t, child.Freeze())
		redistest.Eventually(t, kit.Soon, "the lease to end", func() bool {
			n, err := server.Do("EXISTS", "lock")
			return err == nil && n == int64(0)
		})
		require.NoError(t, child.Thaw())
		lost := map[string]bool{}
		for len(lost) < map[side]int{reading: 2, writing: 1}[holder] {
			which, err := child.Expect("lost ", kit.Soon)
			require.NoError(t, err)
			lost[which] = true
		}
		m := other.of(kit.NewSession(t, server, relock.WithLease(lease)).RWMutex("lock"))
		kit.Lock(t, kit.Background, m)
		kit.Unlock(t, kit.Background, m)
	})
}

// Of two reading processes one stands still. The other one's share, and that it may not
// be written, stays; the writer gets in when it leaves, whether the frozen one knows of
// its loss or not.
func TestRWMutexFrozenReaderDoesNotHarmTheOthers(t *testing.T) {
	t.Parallel()
	const lease = 500 * time.Millisecond
	server := redistest.Start(t)
	s, writer := kit.NewSession(t, server), kit.NewSession(t, server)
	reader, w := s.RWMutex("lock").RLocker(), writer.RWMutex("lock")
	kit.Lock(t, kit.Background, reader)
	child := rwChild(t, server, lease)
	kit.Tell(t, child, "lock reader1", "locked")
	require.NoError(t, child.Freeze())
	redistest.Eventually(t, kit.Soon, "its lease to end", func() bool { return len(leasesOf(t, server)) == 1 })
	got := kit.Async(func() error { return w.Lock(kit.Background) })
	wants(t, server, writing)
	require.Empty(t, got)
	require.NoError(t, reader.Err())
	kit.Unlock(t, kit.Background, reader)
	start := time.Now()
	require.NoError(t, kit.Receive(t, got, "the writer"))
	require.Less(t, time.Since(start), kit.Quickly)
	require.NoError(t, child.Thaw())
	require.Equal(t, "reader1 true true", kit.Tell(t, child, "state reader1", "state"))
	require.Equal(t, "reader1 false true", kit.Tell(t, child, "unlock reader1", "unlocked"))
	require.NoError(t, w.Err())
	kit.Unlock(t, kit.Background, w)
}
