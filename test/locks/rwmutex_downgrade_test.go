package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A writer reads, and unlocks the write side first: readers that waited enter at once,
// nobody loses anything, and the last reader opens the lock.
func TestRWMutexDowngradeLetsReadersIn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server) // with a lease of 30 s
	for range 3 {
		d := downgrade(t, server, s, other)
		require.Equal(t, relock.Exclusive, inspect(t, other, "lock").Mode)
		kit.Unlock(t, d.owner, d.rw)
		require.Equal(t, relock.Exclusive, inspect(t, other, "lock").Mode, "locked twice")
		require.Equal(t, d.token, d.rw.FencingToken())
		start := time.Now()
		kit.Unlock(t, d.owner, d.rw)
		require.ErrorIs(t, d.rw.Err(), relock.ErrNotHeld)
		for _, r := range d.reads {
			require.NoError(t, kit.Receive(t, r, "a reader that waited"))
		}
		require.Less(t, time.Since(start), kit.Quickly, "much less than the lease")
		require.NoError(t, d.rw.RLocker().Err())
		require.False(t, kit.IsClosed(d.done))
		require.Equal(t, relock.Shared, inspect(t, other, "lock").Mode)
		redistest.Eventually(t, kit.Soon, "one hold for each session", func() bool { return len(kit.HoldersOf(t, s, "lock")) == 2 })
		require.ErrorIs(t, d.rw.Lock(d.owner), relock.ErrUpgrade)
		require.False(t, kit.TryLock(t, kit.Background, other.RWMutex("lock")))
		for _, r := range d.readers {
			kit.Unlock(t, kit.Background, r.RLocker())
		}
		kit.Unlock(t, d.owner, d.rw.RLocker())
		require.NoError(t, d.rw.RLocker().Err())
		require.False(t, kit.TryLock(t, kit.Background, other.RWMutex("lock")), "read twice")
		kit.Unlock(t, d.owner, d.rw.RLocker())
		require.True(t, kit.IsClosed(d.done))
		mustBeQuiet(t, kit.NewClient(t, server), "lock", s, other)
	}
}

// Writers wait as well: it is the readers' turn, and no writer enters before the last
// reader has left. On a slow machine the turn may be over too soon; not every time.
func TestRWMutexDowngradeLetsNoWriterIn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	for had := 0; had == 0; {
		d := downgrade(t, server, s, other)
		writers := []*relock.RWMutex{s.RWMutex("lock"), other.RWMutex("lock")}
		entered := make(chan *relock.RWMutex, len(writers))
		var writes []<-chan error
		for _, w := range writers {
			writes = append(writes, kit.Async(func() error {
				err := w.Lock(kit.Background)
				entered <- w
				return err
			}))
		}
		redistest.Eventually(t, kit.Soon, "a writer to wait here", func() bool {
			_, here := peek.QueuedRW(s, "lock")
			return here == 1
		})
		wants(t, server, writing)
		kit.Unlock(t, d.owner, d.rw)
		kit.Unlock(t, d.owner, d.rw)
		for end := time.Now().Add(kit.Quickly); had < len(d.reads) && time.Now().Before(end); time.Sleep(time.Millisecond) {
			had = 0
			for _, r := range d.reads {
				had += len(r)
			}
		}
		require.Empty(t, entered, "a writer beside readers")
		require.NoError(t, d.rw.RLocker().Err())
		kit.Unlock(t, d.owner, d.rw.RLocker())
		if had < len(d.reads) {
			t.Logf("only %d of %d readers had their turn", had, len(d.reads))
			had = 0
			kit.Unlock(t, d.owner, d.rw.RLocker())
			require.NoError(t, kit.Receive(t, kit.Async(func() error {
				return kit.Together(len(d.reads)+len(writes), func(i int) error {
					if i < len(d.reads) {
						return errors.Join(<-d.reads[i], d.readers[i].RUnlock(kit.Background))
					}
					return errors.Join(<-writes[i-len(d.reads)], (<-entered).Unlock(kit.Background))
				})
			}), "everybody to have been in"))
			continue
		}
		for i, r := range d.readers {
			require.NoError(t, kit.Receive(t, d.reads[i], "a reader"))
			kit.Unlock(t, kit.Background, r.RLocker())
		}
		require.Empty(t, entered, "a writer beside the owner")
		kit.Unlock(t, d.owner, d.rw.RLocker())
		for range writers {
			w := kit.Receive(t, entered, "a writer")
			require.Greater(t, w.FencingToken(), d.token)
			require.Empty(t, entered, "two writers")
			kit.Unlock(t, kit.Background, w)
		}
		for _, w := range writes {
			require.NoError(t, kit.Receive(t, w, "a writer's call"))
		}
		mustBeQuiet(t, kit.NewClient(t, server), "lock", s, other)
	}
}

// downgraded is an owner that writes and reads, twice each, and readers that wait for it.
type downgraded struct {
	rw      *relock.RWMutex
	owner   context.Context
	token   int64
	done    <-chan struct{} // of the owner's read hold
	readers []*relock.RWMutex
	reads   []<-chan error
}

func downgrade(t testing.TB, server *redistest.Server, s, other *relock.Session) downgraded {
	t.Helper()
	d := downgraded{rw: s.RWMutex("lock"), owner: s.NewContext(kit.Background)}
	for _, l := range []relock.Locker{d.rw, d.rw.RLocker()} {
		kit.Lock(t, d.owner, l)
		kit.Lock(t, d.owner, l)
	}
	d.token, d.done = d.rw.FencingToken(), d.rw.RLocker().Done()
	for _, from := range []*relock.Session{s, other, s, other} {
		r := from.RWMutex("lock")
		d.readers = append(d.readers, r)
		d.reads = append(d.reads, kit.Async(func() error { return r.RLock(kit.Background) }))
	}
	redistest.Eventually(t, kit.Soon, "readers to wait in both sessions", func() bool {
		here, _ := peek.QueuedRW(s, "lock")
		there, _ := peek.QueuedRW(other, "lock")
		return here+there == 2
	})
	wants(t, server, reading)
	return d
}

// The other way round: it stops reading and goes on writing.
func TestRWMutexWriterMayStopReading(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at), kit.NewSession(t, at)
		rw, owner := s.RWMutex("lock"), s.NewContext(kit.Background)
		for range 3 {
			kit.Lock(t, owner, rw)
			require.True(t, kit.TryLock(t, owner, rw.RLocker()))
			kit.Unlock(t, owner, rw.RLocker())
			require.ErrorIs(t, rw.RUnlock(owner), relock.ErrNotHeld)
			require.NoError(t, rw.Err())
			for _, s := range []*relock.Session{s, other} {
				require.False(t, tryRead(t, s.RWMutex("lock")))
				require.False(t, kit.TryLock(t, kit.Background, s.RWMutex("lock")))
			}
			kit.Unlock(t, owner, rw)
			require.True(t, tryRead(t, other.RWMutex("lock")))
		}
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s, other)
	})
}

// A reader that asks to write is refused at once, also while others read and write.
func TestRWMutexUpgradeIsRefused(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at), kit.NewSession(t, at)
		rw, owner := s.RWMutex("lock"), s.NewContext(kit.Background)
		kit.Lock(t, owner, rw.RLocker())
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
		kit.Lock(t, kit.Background, other.RWMutex("lock").RLocker())
		refused()
		ctx, cancel := context.WithCancel(kit.Background)
		writer := kit.Async(func() error { return other.RWMutex("lock").Lock(ctx) })
		redistest.Eventually(t, kit.Soon, "a writer to wait", func() bool { return !tryRead(t, s.RWMutex("lock")) })
		refused()
		cancel()
		require.ErrorIs(t, kit.Receive(t, writer, "the writer to leave"), context.Canceled)
		kit.Unlock(t, owner, rw.RLocker())
		require.False(t, kit.TryLock(t, owner, rw), "the other one reads")
	})
}
