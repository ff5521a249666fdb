package relock_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
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
		s := newSession(t, server)
		child := rwChild(t, server, lease)
		which := []string{string(holder) + "1", string(holder) + "2", string(holder) + "4"}
		if holder == writing {
			which = which[:1]
		}
		for _, w := range which {
			tell(t, child, "lock "+w, "locked")
		}
		require.NoError(t, child.Freeze())
		m := waiter.of(s.RWMutex("lock"))
		lock(t, background, m)
		mine := holdersOf(t, s, "lock")
		require.Len(t, mine, 1)
		require.Equal(t, s.ID(), mine[0].Session)

		require.NoError(t, child.Thaw())
		for i, w := range which {
			if i == 0 { // the others by their unlock
				require.Equal(t, w+" true true", tell(t, child, "state "+w, "state"))
			}
		}
		for _, w := range which {
			require.Equal(t, w+" false true", tell(t, child, "unlock "+w, "unlocked"))
			require.Equal(t, w+" false false", tell(t, child, "unlock "+w, "unlocked"))
		}
		require.NoError(t, m.Err())
		require.Equal(t, mine, holdersOf(t, s, "lock"))

		// Things go on: it gets in when the lock is free again.
		w := string(holder) + "2"
		require.NoError(t, child.Send("wait "+w))
		unlock(t, background, m)
		_, err := child.Expect("locked "+w, soon)
		require.NoError(t, err)
		mustBeQuiet(t, newClient(t, server), "lock", s)
	})
}

// It need not ask.
func TestRWMutexFrozenPastItsLeaseIsTold(t *testing.T) {
	const lease = 400 * time.Millisecond
	eachSide(t, func(t *testing.T, holder, other side) {
		server := redistest.Start(t)
		child := rwChild(t, server, lease)
		tell(t, child, "lock "+string(holder)+"1", "locked")
		if holder == reading {
			tell(t, child, "lock reader2", "locked")
		}
		require.NoError(t, child.Freeze())
		redistest.Eventually(t, soon, "the lease to end", func() bool {
			n, err := server.Do("EXISTS", "lock")
			return err == nil && n == int64(0)
		})
		require.NoError(t, child.Thaw())
		lost := map[string]bool{}
		for len(lost) < map[side]int{reading: 2, writing: 1}[holder] {
			which, err := child.Expect("lost ", soon)
			require.NoError(t, err)
			lost[which] = true
		}
		m := other.of(newSession(t, server, relock.WithWatchdog(lease)).RWMutex("lock"))
		lock(t, background, m)
		unlock(t, background, m)
	})
}

// Of two reading processes one stands still. The other one's share, and that it may not
// be written, stays; the writer gets in when it leaves, whether the frozen one knows of
// its loss or not.
func TestRWMutexFrozenReaderDoesNotHarmTheOthers(t *testing.T) {
	t.Parallel()
	const lease = 500 * time.Millisecond
	server := redistest.Start(t)
	s, writer := newSession(t, server), newSession(t, server)
	reader, w := s.RWMutex("lock").RLocker(), writer.RWMutex("lock")
	lock(t, background, reader)
	child := rwChild(t, server, lease)
	tell(t, child, "lock reader1", "locked")
	require.NoError(t, child.Freeze())
	redistest.Eventually(t, soon, "its lease to end", func() bool { return len(leasesOf(t, server)) == 1 })
	got := async(func() error { return w.Lock(background) })
	wants(t, server, writing)
	require.Empty(t, got)
	require.NoError(t, reader.Err())
	unlock(t, background, reader)
	start := time.Now()
	require.NoError(t, receive(t, got, "the writer"))
	require.Less(t, time.Since(start), quickly)
	require.NoError(t, child.Thaw())
	require.Equal(t, "reader1 true true", tell(t, child, "state reader1", "state"))
	require.Equal(t, "reader1 false true", tell(t, child, "unlock reader1", "unlocked"))
	require.NoError(t, w.Err())
	unlock(t, background, w)
}
