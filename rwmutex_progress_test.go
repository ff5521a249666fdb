package relock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// load takes and gives back one side of a lock without a pause, in a few goroutines
// that never all leave it at once, until stop is closed. It returns a function that
// waits for its end.
func load(t testing.TB, stop <-chan struct{}, goroutines int, value func() relock.Locker) func() {
	t.Helper()
	running := make(chan struct{}, goroutines)
	result := async(func() error {
		return together(goroutines, func(i int) error {
			l := value()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return nil
				default:
				}
				if err := l.Lock(background); err != nil {
					return err
				}
				if n == 0 {
					running <- struct{}{}
				}
				time.Sleep(time.Millisecond)
				if err := l.Unlock(background); err != nil {
					return err
				}
			}
		})
	})
	receive(t, running, "the load to run")
	return func() {
		t.Helper()
		require.NoError(t, receive(t, result, "the load to end"))
	}
}

// Each of these has the lock all the time, and the other side must get in all the same.
func TestRWMutexNeitherSideStarves(t *testing.T) {
	const goroutines = 4
	sides := map[string]func(rw *relock.RWMutex) (many, one relock.Locker){
		"writer": func(rw *relock.RWMutex) (many, one relock.Locker) { return rw.RLocker(), rw },
		"reader": func(rw *relock.RWMutex) (many, one relock.Locker) { return rw, rw.RLocker() },
	}
	for who, side := range sides {
		for where, apart := range map[string]bool{"in one session": false, "among sessions": true} {
			t.Run(who+" "+where, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				s, other := newSession(t, server), newSession(t, server)
				third := newSession(t, server)
				if !apart {
					other, third = s, s
				}
				stop := make(chan struct{})
				end := load(t, stop, goroutines, func() relock.Locker {
					many, _ := side(s.RWMutex("lock"))
					return many
				})
				end2 := load(t, stop, goroutines, func() relock.Locker {
					many, _ := side(third.RWMutex("lock"))
					return many
				})
				_, one := side(other.RWMutex("lock"))
				var waits []time.Duration
				for range 10 {
					watch := startWatch()
					lock(t, background, one)
					waits = append(waits, watch.took())
					unlock(t, background, one)
				}
				close(stop)
				end()
				end2()
				slices.Sort(waits)
				t.Logf("waited %v", waits)
				require.Less(t, waits[len(waits)/2], time.Second, "a few tenures")
				mustBeQuiet(t, newClient(t, server), "lock", s, other, third)
			})
		}
	}
}

// Writers that are near Redis release and take the lock many times while a reader that is
// far from it hears of one release: it has its turn all the same.
func TestRWMutexReaderFarAwayDoesNotStarve(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	near := []*relock.Session{newSession(t, server), newSession(t, server)}
	far := newSession(t, proxy)
	warmUpRW(t, far)
	stop := make(chan struct{})
	var ends []func()
	for _, s := range near {
		ends = append(ends, load(t, stop, 2, func() relock.Locker { return s.RWMutex("lock") }))
	}
	proxy.Delay(50 * time.Millisecond) // each way
	r := far.RWMutex("lock").RLocker()
	for range 3 {
		start := time.Now()
		lock(t, background, r)
		t.Log("waited", time.Since(start))
		unlock(t, background, r)
	}
	proxy.Delay(0)
	close(stop)
	for _, end := range ends {
		end()
	}
	mustBeQuiet(t, newClient(t, server), "lock", append(near, far)...)
}

// An owner that reads may read again, whatever waits: it would wait for itself.
func TestRWMutexReentryPassesWaitingWriters(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other := newSession(t, at, relock.WithTenure(0)), newSession(t, at)
		owner := s.NewContext(background)
		rw := s.RWMutex("lock")
		lock(t, owner, rw.RLocker())
		for _, writer := range []*relock.RWMutex{s.RWMutex("lock"), other.RWMutex("lock")} {
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			got := async(func() error { return writer.Lock(ctx) })
			redistest.Eventually(t, soon, "the writer to stop new readers", func() bool {
				return !tryRead(t, other.RWMutex("lock"))
			})
			require.False(t, tryRead(t, s.RWMutex("lock")), "new readers of the same session, too")
			for range 3 {
				lock(t, owner, s.RWMutex("lock").RLocker())
				require.True(t, tryLock(t, owner, rw.RLocker()))
			}
			for range 6 {
				unlock(t, owner, rw.RLocker())
			}
			cancel()
			require.ErrorIs(t, receive(t, got, "the writer to leave"), context.Canceled)
			redistest.Eventually(t, quickly, "new readers to get in", func() bool {
				return tryRead(t, other.RWMutex("lock")) && tryRead(t, s.RWMutex("lock"))
			})
		}
		unlock(t, owner, rw.RLocker())
		mustBeQuiet(t, newClient(t, at), "lock", s, other)
	})
}

// tryRead takes the read side for a moment, and reports whether it could.
func tryRead(t testing.TB, rw *relock.RWMutex) bool {
	t.Helper()
	ok := tryLock(t, background, rw.RLocker())
	if ok {
		unlock(t, background, rw.RLocker())
	}
	return ok
}

// Readers and writers of several processes come and go for a while, and give up at
// random; nobody's turn gets lost.
func TestRWMutexStorm(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	var sessions []*relock.Session
	for i := range 3 {
		sessions = append(sessions, newSession(t, server, relock.WithTenure(time.Duration(i)*5*time.Millisecond)))
	}
	const goroutines = 6
	end := time.Now().Add(stress(t, time.Second))
	var reads, writes atomic.Int64
	shared := sessions[2].RWMutex("lock")
	require.NoError(t, together(len(sessions)*goroutines, func(i int) error {
		s := sessions[i/goroutines]
		rw, parent := s.RWMutex("lock"), background
		switch i % goroutines {
		case 0:
			parent = s.NewContext(parent)
		case 1, 2:
			if s == sessions[2] {
				rw = shared
			}
		case 3:
			rw = s.RWMutex("lock", relock.WithLease(time.Minute))
		}
		r := newRace()
		for n := 0; time.Now().Before(end); n++ {
			l, do, count := rw.RLocker(), crowd{client}.read, &reads
			if n%3 == 0 {
				l, do, count = rw, crowd{client}.write, &writes
			}
			ctx, cancel := r.context(parent)
			err := l.Lock(ctx)
			cancel()
			if errors.Is(err, errStop) {
				r.span = min(r.span*11/10, 50*time.Millisecond)
				continue
			}
			if err == nil {
				r.span = max(r.span*9/10, 100*time.Microsecond)
				count.Add(1)
				if err = do(); err == nil {
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
	require.EqualValues(t, writes.Load(), counted(t, client, "value"))
	mustBeQuiet(t, client, "lock", sessions...)
	for _, s := range sessions {
		rw := s.RWMutex("lock")
		lock(t, background, rw)
		unlock(t, background, rw)
	}
}
