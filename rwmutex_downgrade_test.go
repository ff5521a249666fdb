package relock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A writer reads, and unlocks the write side first: readers that waited enter at once,
// nobody loses anything, and the last reader opens the lock.
func TestRWMutexDowngradeLetsReadersIn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := newSession(t, server), newSession(t, server) // with a lease of 30 s
	for range 3 {
		d := downgrade(t, server, s, other)
		require.Equal(t, relock.Exclusive, inspect(t, other, "lock").Mode)
		unlock(t, d.owner, d.rw)
		require.Equal(t, relock.Exclusive, inspect(t, other, "lock").Mode, "locked twice")
		require.Equal(t, d.token, d.rw.FencingToken())
		start := time.Now()
		unlock(t, d.owner, d.rw)
		require.ErrorIs(t, d.rw.Err(), relock.ErrNotHeld)
		for _, r := range d.reads {
			require.NoError(t, receive(t, r, "a reader that waited"))
		}
		require.Less(t, time.Since(start), quickly, "much less than the lease")
		require.NoError(t, d.rw.RLocker().Err())
		require.False(t, isClosed(d.done))
		require.Equal(t, relock.Shared, inspect(t, other, "lock").Mode)
		require.Len(t, holdersOf(t, s, "lock"), 2, "one for each session")
		require.ErrorIs(t, d.rw.Lock(d.owner), relock.ErrUpgrade)
		require.False(t, tryLock(t, background, other.RWMutex("lock")))
		for _, r := range d.readers {
			unlock(t, background, r.RLocker())
		}
		unlock(t, d.owner, d.rw.RLocker())
		require.NoError(t, d.rw.RLocker().Err())
		require.False(t, tryLock(t, background, other.RWMutex("lock")), "read twice")
		unlock(t, d.owner, d.rw.RLocker())
		require.True(t, isClosed(d.done))
		mustBeQuiet(t, newClient(t, server), "lock", s, other)
	}
}

// Writers wait as well: it is the readers' turn, and no writer enters before the last
// reader has left. On a slow machine the turn may be over too soon; not every time.
func TestRWMutexDowngradeLetsNoWriterIn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := newSession(t, server), newSession(t, server)
	for had := 0; had == 0; {
		d := downgrade(t, server, s, other)
		writers := []*relock.RWMutex{s.RWMutex("lock"), other.RWMutex("lock")}
		entered := make(chan *relock.RWMutex, len(writers))
		var writes []<-chan error
		for _, w := range writers {
			writes = append(writes, async(func() error {
				err := w.Lock(background)
				entered <- w
				return err
			}))
		}
		redistest.Eventually(t, soon, "a writer to wait here", func() bool {
			_, here := peek.QueuedRW(s, "lock")
			return here == 1
		})
		wants(t, server, writing)
		unlock(t, d.owner, d.rw)
		unlock(t, d.owner, d.rw)
		for end := time.Now().Add(quickly); had < len(d.reads) && time.Now().Before(end); time.Sleep(time.Millisecond) {
			had = 0
			for _, r := range d.reads {
				had += len(r)
			}
		}
		require.Empty(t, entered, "a writer beside readers")
		require.NoError(t, d.rw.RLocker().Err())
		unlock(t, d.owner, d.rw.RLocker())
		if had < len(d.reads) {
			t.Logf("only %d of %d readers had their turn", had, len(d.reads))
			had = 0
			unlock(t, d.owner, d.rw.RLocker())
			require.NoError(t, receive(t, async(func() error {
				return together(len(d.reads)+len(writes), func(i int) error {
					if i < len(d.reads) {
						return errors.Join(<-d.reads[i], d.readers[i].RUnlock(background))
					}
					return errors.Join(<-writes[i-len(d.reads)], (<-entered).Unlock(background))
				})
			}), "everybody to have been in"))
			continue
		}
		for i, r := range d.readers {
			require.NoError(t, receive(t, d.reads[i], "a reader"))
			unlock(t, background, r.RLocker())
		}
		require.Empty(t, entered, "a writer beside the owner")
		unlock(t, d.owner, d.rw.RLocker())
		for range writers {
			w := receive(t, entered, "a writer")
			require.Greater(t, w.FencingToken(), d.token)
			require.Empty(t, entered, "two writers")
			unlock(t, background, w)
		}
		for _, w := range writes {
			require.NoError(t, receive(t, w, "a writer's call"))
		}
		mustBeQuiet(t, newClient(t, server), "lock", s, other)
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
	d := downgraded{rw: s.RWMutex("lock"), owner: s.NewContext(background)}
	for _, l := range []relock.Locker{d.rw, d.rw.RLocker()} {
		lock(t, d.owner, l)
		lock(t, d.owner, l)
	}
	d.token, d.done = d.rw.FencingToken(), d.rw.RLocker().Done()
	for _, from := range []*relock.Session{s, other, s, other} {
		r := from.RWMutex("lock")
		d.readers = append(d.readers, r)
		d.reads = append(d.reads, async(func() error { return r.RLock(background) }))
	}
	redistest.Eventually(t, soon, "readers to wait in both sessions", func() bool {
		here, _ := peek.QueuedRW(s, "lock")
		there, _ := peek.QueuedRW(other, "lock")
		return here+there == 2
	})
	wants(t, server, reading)
	return d
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
