package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Without an owner in the context the handle is the owner, and behaves as a sync.Mutex or sync.RWMutex does.

// Any of them may unlock. TestSyncMutex has many of them.
func TestGoroutinesOfOneHandleExcludeEachOther(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		l := k.of(k.sessions(t), "lock")
		kit.Lock(t, kit.Background, l)
		require.False(t, kit.TryLock(t, kit.Background, l), "nobody enters twice")
		got := kit.Async(func() error { return l.Lock(kit.Background) })
		require.NoError(t, kit.Receive(t, kit.Async(func() error { return l.Unlock(kit.Background) }), "another's Unlock"))
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
		kit.Unlock(t, kit.Background, l)

		require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
	}, exclusive)
}

// The goroutine that unlocks first hears of the loss, whoever it is. Until then nobody locks through
// the handle; others do.
func TestFirstUnlockAfterALossSaysSo(t *testing.T) {
	const text = "unlock the lost hold before locking again"
	eachOf(t, func(t *testing.T, k *kind) {
		ss := k.sessions(t)
		l, other := k.of(ss, "lock"), k.of(ss, "lock")
		kit.Lock(t, kit.Background, l)
		k.lose(t, ss, "lock", l)
		ok, err := l.TryLock(kit.Background)
		require.False(t, ok)
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorContains(t, err, text)
		ctx, cancel := context.WithTimeout(kit.Background, 20*time.Millisecond)
		defer cancel()
		err = l.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorContains(t, err, text)

		got := kit.Async(func() error { return l.Lock(kit.Background) })
		kit.Lock(t, kit.Background, other) // another handle is not blocked
		require.Empty(t, got)
		kit.Unlock(t, kit.Background, other)
		require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
		require.NoError(t, l.Err())
		kit.Unlock(t, kit.Background, l)
		require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
	})
}

// Unlock without an owner ends what was last taken through the handle, also by an owner, and nothing that
// was taken through another one.
func TestUnlockEndsWhatWasLastTaken(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		s := kit.NewSession(t, redistest.Start(t))
		one, two := k.on(s, "lock"), k.on(s, "lock")
		nobody, a, b := kit.Background, s.NewContext(kit.Background), s.NewContext(kit.Background)
		held := func(l relock.Locker, ctx context.Context) {
			t.Helper()
			require.ErrorIs(t, l.Unlock(ctx), relock.ErrNotHeld)
			require.False(t, kit.TryLock(t, b, two))
		}
		free := func() {
			t.Helper()
			require.True(t, kit.TryLock(t, b, two))
			kit.Unlock(t, b, two)
		}
		require.ErrorIs(t, one.Unlock(nobody), relock.ErrNotHeld)
		kit.Lock(t, nobody, one)
		held(one, a)
		held(two, nobody)
		kit.Unlock(t, nobody, one)
		free()

		kit.Lock(t, a, one)
		kit.Lock(t, a, one)
		held(one, b)
		held(two, nobody)
		kit.Unlock(t, nobody, one)
		held(one, b)
		kit.Unlock(t, nobody, one)
		require.ErrorIs(t, one.Unlock(a), relock.ErrNotHeld)
		free()

		kit.Lock(t, a, one)
		kit.Lock(t, a, two)
		kit.Unlock(t, nobody, two)
		require.NoError(t, one.Err())
		kit.Unlock(t, a, two)
		free()
	}, fenced)
}

// Readers through one handle share a hold, which counts them; their owners have others.
func TestReadersOfOneHandleAreCounted(t *testing.T) {
	for what, o := range map[string][]relock.LockOption{
		"shared lease": nil, "fixed lease": {relock.WithFixedLease(time.Hour)}, "bounded": {relock.WithMaxHold(time.Hour)},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := kit.NewSession(t, server)
			rw := s.RWMutex("lock", o...)
			r, owner := rw.RLocker(), s.NewContext(kit.Background)
			kit.Lock(t, kit.Background, r)
			done := r.Done()
			kit.Lock(t, kit.Background, r)
			require.True(t, kit.TryLock(t, kit.Background, r))
			require.Equal(t, done, r.Done())
			require.ErrorIs(t, rw.Err(), relock.ErrNotHeld, "the other side")
			require.False(t, kit.TryLock(t, kit.Background, rw))
			redistest.Eventually(t, kit.Quickly, "one lease", func() bool { return len(kit.HoldersOf(t, s, "lock")) == 1 })

			kit.Lock(t, owner, r) // the last that was taken, which Unlock without an owner ends
			kit.Unlock(t, kit.Background, r)
			require.ErrorIs(t, r.Unlock(owner), relock.ErrNotHeld)
			for range 2 {
				kit.Unlock(t, kit.Background, r)
				require.False(t, kit.IsClosed(done))
			}
			kit.Unlock(t, kit.Background, r)
			require.True(t, kit.IsClosed(done))
			require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
			mustBeQuiet(t, kit.NewClient(t, server), "lock", s)

			kit.Lock(t, kit.Background, r)
			kit.Lock(t, kit.Background, r)
			force(t, []*relock.Session{s}, "lock", r)
			for range 2 { // each of them hears of it
				require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrLost)
			}
			require.True(t, kit.TryLock(t, kit.Background, r))
		})
	}
}

// A reader with a fixed lease that joins through a handle has it set again, so nobody's is cut short by the time
// that another has had it, nor by another's Unlock.
func TestJoiningReaderHasTheLeaseSetAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, client := kit.NewSession(t, server), kit.NewClient(t, server)
	rw := s.RWMutex("lock", relock.WithFixedLease(time.Hour))
	r := rw.RLocker()
	kit.Lock(t, kit.Background, r)
	peek.Engine(s).Clock.Skip(30 * time.Minute) // the half of it has passed
	first, ok := peek.Reader(rw).Deadline()
	require.True(t, ok)
	kit.Lock(t, kit.Background, r)
	second, ok := peek.Reader(rw).Deadline()
	require.True(t, ok)
	require.WithinDuration(t, first.Add(30*time.Minute), second, time.Minute)
	kit.Unlock(t, kit.Background, r) // of either
	last, ok := peek.Reader(rw).Deadline()
	require.True(t, ok)
	require.WithinDuration(t, second, last, time.Minute)
	redistest.Eventually(t, kit.Quickly, "the lease before to be given up", func() bool {
		return len(readLeases(t, client)) == 1
	})
	require.Greater(t, pttl(t, client, readLeases(t, client)[0]), 59*time.Minute)
	kit.Unlock(t, kit.Background, r)
	mustBeQuiet(t, client, "lock", s)
}
