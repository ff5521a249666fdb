package locks_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// An owner that reads may read again, whatever waits: it would wait for itself.
func TestRWMutexReentryPassesWaitingWriters(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at, relock.WithTenure(0)), kit.NewSession(t, at)
		owner := s.NewContext(kit.Background)
		rw := s.RWMutex("lock")
		kit.Lock(t, owner, rw.RLocker())
		for _, writer := range []*relock.RWMutex{s.RWMutex("lock"), other.RWMutex("lock")} {
			ctx, cancel := context.WithCancel(kit.Background)
			defer cancel()
			got := kit.Async(func() error { return writer.Lock(ctx) })
			redistest.Eventually(t, kit.Soon, "the writer to stop new readers", func() bool {
				return !tryRead(t, other.RWMutex("lock"))
			})
			require.False(t, tryRead(t, s.RWMutex("lock")), "new readers of the same session, too")
			for range 3 {
				kit.Lock(t, owner, s.RWMutex("lock").RLocker())
				require.True(t, kit.TryLock(t, owner, rw.RLocker()))
			}
			for range 6 {
				kit.Unlock(t, owner, rw.RLocker())
			}
			cancel()
			require.ErrorIs(t, kit.Receive(t, got, "the writer to leave"), context.Canceled)
			redistest.Eventually(t, kit.Quickly, "new readers to get in", func() bool {
				return tryRead(t, other.RWMutex("lock")) && tryRead(t, s.RWMutex("lock"))
			})
		}
		kit.Unlock(t, owner, rw.RLocker())
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s, other)
	})
}

// tryRead takes the read side for a moment, and reports whether it could.
func tryRead(t testing.TB, rw *relock.RWMutex) bool {
	t.Helper()
	ok := kit.TryLock(t, kit.Background, rw.RLocker())
	if ok {
		kit.Unlock(t, kit.Background, rw.RLocker())
	}
	return ok
}

// Readers and writers of several processes come and go for a while, and give up at
// random; nobody's turn gets lost.
func TestRWMutexStorm(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	var sessions []*relock.Session
	for i := range 3 {
		sessions = append(sessions, kit.NewSession(t, server, relock.WithTenure(time.Duration(i)*5*time.Millisecond)))
	}
	const goroutines = 6
	end := time.Now().Add(kit.Stress(t, time.Second))
	var reads, writes atomic.Int64
	shared := sessions[2].RWMutex("lock")
	require.NoError(t, kit.Together(len(sessions)*goroutines, func(i int) error {
		s := sessions[i/goroutines]
		rw, parent := s.RWMutex("lock"), kit.Background
		switch i % goroutines {
		case 0:
			parent = s.NewContext(parent)
		case 1, 2:
			if s == sessions[2] {
				rw = shared
			}
		case 3:
			rw = s.RWMutex("lock", relock.WithFixedLease(time.Minute))
		}
		r := newRace()
		for n := 0; time.Now().Before(end); n++ {
			l, count := rw.RLocker(), &reads
			if n%3 == 0 {
				l, count = rw, &writes
			}
			ctx, cancel := r.context(parent)
			err := l.Lock(ctx)
			cancel()
			if errors.Is(err, kit.ErrStop) {
				r.span = min(r.span*11/10, 50*time.Millisecond)
				continue
			}
			if err == nil {
				r.span = max(r.span*9/10, 100*time.Microsecond)
				count.Add(1)
				if err = (crowd{client}).use(l); err == nil {
					err = l.Unlock(parent)
				}
			}
			if err != nil {
				return fmt.Errorf("goroutine %d: %w", i, err)
			}
		}
		return nil
	}))
	t.Logf("%d reads, %d writes", reads.Load(), writes.Load())
	require.NotZero(t, reads.Load())
	require.EqualValues(t, writes.Load(), kit.Counted(t, client, "value"))
	mustBeQuiet(t, client, "lock", sessions...)
	for _, s := range sessions {
		rw := s.RWMutex("lock")
		kit.Lock(t, kit.Background, rw)
		kit.Unlock(t, kit.Background, rw)
	}
}
