package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A writer reads, and unlocks the write side first: readers that waited enter at once,
// writers do not, nobody loses anything, and the last reader opens the lock.
func TestRWMutexDowngrade(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := newSession(t, server), newSession(t, server) // with a lease of 30 s
	for range 3 {
		rw, owner := s.RWMutex("lock"), s.NewContext(background)
		lock(t, owner, rw)
		lock(t, owner, rw)
		token := rw.FencingToken()
		lock(t, owner, rw.RLocker())
		require.Equal(t, relock.Exclusive, inspect(t, other, "lock").Mode)
		lock(t, owner, rw.RLocker())
		done := rw.RLocker().Done()

		readers := []*relock.RWMutex{s.RWMutex("lock"), other.RWMutex("lock"), s.RWMutex("lock"), other.RWMutex("lock")}
		var reads []<-chan error
		for _, r := range readers {
			reads = append(reads, async(func() error { return r.RLock(background) }))
		}
		redistest.Eventually(t, soon, "readers to wait", func() bool {
			here, _ := s.QueuedRW("lock")
			there, _ := other.QueuedRW("lock")
			return here+there == 2
		})
		wants(t, server, reading)
		writers := []*relock.RWMutex{s.RWMutex("lock"), other.RWMutex("lock")}
		var writes []<-chan error
		for _, w := range writers {
			writes = append(writes, async(func() error { return w.Lock(background) }))
		}
		redistest.Eventually(t, soon, "writers to wait", func() bool {
			_, here := s.QueuedRW("lock")
			return here == 1
		})
		wants(t, server, writing)

		unlock(t, owner, rw)
		require.Equal(t, relock.Exclusive, inspect(t, other, "lock").Mode, "locked twice")
		require.Equal(t, token, rw.FencingToken())
		start := time.Now()
		unlock(t, owner, rw)
		require.ErrorIs(t, rw.Err(), relock.ErrNotHeld)
		for _, r := range reads {
			require.NoError(t, receive(t, r, "a reader that waited"))
		}
		require.Less(t, time.Since(start), quickly, "much less than the lease")
		require.NoError(t, rw.RLocker().Err())
		require.False(t, isClosed(done))
		require.Equal(t, relock.Shared, inspect(t, other, "lock").Mode)
		require.Len(t, holdersOf(t, s, "lock"), 2, "one for each session")

		// It goes on reading: nobody writes, and it may not write again itself.
		require.ErrorIs(t, rw.Lock(owner), relock.ErrUpgrade)
		for _, r := range readers {
			unlock(t, background, r.RLocker())
		}
		unlock(t, owner, rw.RLocker())
		require.NoError(t, rw.RLocker().Err())
		for _, w := range writes {
			require.Empty(t, w, "a writer beside a reader")
		}
		unlock(t, owner, rw.RLocker())
		require.True(t, isClosed(done))
		first, second := 0, 1
		select {
		case err := <-writes[0]:
			require.NoError(t, err)
		case err := <-writes[1]:
			require.NoError(t, err)
			first, second = 1, 0
		case <-time.After(soon):
			t.Fatal("no writer got in")
		}
		require.Empty(t, writes[second], "two writers")
		require.Greater(t, writers[first].FencingToken(), token)
		unlock(t, background, writers[first])
		require.NoError(t, receive(t, writes[second], "the second writer"))
		unlock(t, background, writers[second])
		mustBeQuiet(t, newClient(t, server), "lock", s, other)
	}
}

// The other way round: it stops reading and goes on writing.
func TestRWMutexWriterMayStopReading(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other := newSession(t, at), newSession(t, at)
		rw, owner := s.RWMutex("lock"), s.NewContext(background)
		for range 3 {
			lock(t, owner, rw)
			require.True(t, tryLock(t, owner, rw.RLocker()))
			unlock(t, owner, rw.RLocker())
			require.ErrorIs(t, rw.RUnlock(owner), relock.ErrNotHeld)
			require.NoError(t, rw.Err())
			for _, s := range []*relock.Session{s, other} {
				require.False(t, tryRead(t, s.RWMutex("lock")))
				require.False(t, tryLock(t, background, s.RWMutex("lock")))
			}
			unlock(t, owner, rw)
			require.True(t, tryRead(t, other.RWMutex("lock")))
		}
		mustBeQuiet(t, newClient(t, at), "lock", s, other)
	})
}

// A reader that asks to write is refused at once, also while others read and write.
func TestRWMutexUpgradeIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other := newSession(t, at), newSession(t, at)
		rw, owner := s.RWMutex("lock"), s.NewContext(background)
		lock(t, owner, rw.RLocker())
		refused := func() {
			t.Helper()
			for _, value := range []*relock.RWMutex{rw, s.RWMutex("lock")} {
				require.ErrorIs(t, value.Lock(owner), relock.ErrUpgrade)
				ok, err := value.TryLock(owner)
				require.False(t, ok)
				require.ErrorIs(t, err, relock.ErrUpgrade)
			}
			require.NoError(t, rw.RLocker().Err())
		}
		refused()
		lock(t, background, other.RWMutex("lock").RLocker())
		refused()
		ctx, cancel := context.WithCancel(background)
		writer := async(func() error { return other.RWMutex("lock").Lock(ctx) })
		redistest.Eventually(t, soon, "a writer to wait", func() bool { return !tryRead(t, s.RWMutex("lock")) })
		refused()
		cancel()
		require.ErrorIs(t, receive(t, writer, "the writer to leave"), context.Canceled)
		unlock(t, owner, rw.RLocker())
		require.False(t, tryLock(t, owner, rw), "the other one reads")
	})
}
