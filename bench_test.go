package relock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Benchmarks for comparing versions with benchstat. One operation is a Lock and an Unlock. BenchmarkTable in test/bench
// measures a floor in turns with each figure, which says more on a machine that is not idle.

var kinds = map[string]func(s *relock.Session, name string) relock.Locker{
	"Mutex":        func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) },
	"FairMutex":    func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) },
	"RWMutexWrite": func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) },
	"RWMutexRead":  func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name).RLocker() },
}

// lockUnlock panics where Lock and Unlock fail: in goroutines FailNow may not be called.
func lockUnlock(ctx context.Context, l relock.Locker) {
	if err := errors.Join(l.Lock(ctx), l.Unlock(ctx)); err != nil {
		panic(err)
	}
}

// BenchmarkLock spreads goroutines over names. All of them together do it b.N times.
func BenchmarkLock(b *testing.B) {
	srv := redistest.Start(b)
	for kind, lock := range kinds {
		for _, shape := range [][2]int{{1, 1}, {1, 64}, {64, 64}} {
			names, goroutines := shape[0], shape[1]
			b.Run(fmt.Sprintf("%s/names=%d/goroutines=%d", kind, names, goroutines), func(b *testing.B) {
				s := kit.NewSession(b, srv)
				locks := []relock.Locker{}
				for i := range names {
					locks = append(locks, lock(s, fmt.Sprint("lock-", i)))
				}
				b.ReportAllocs()
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				require.NoError(b, kit.Together(goroutines, func(i int) error {
					for left.Add(-1) >= 0 {
						lockUnlock(kit.Background, locks[i%names])
					}
					return nil
				}))
			})
		}
	}
}

// BenchmarkReentry is Do of an owner that has the lock, which costs no call of Redis.
func BenchmarkReentry(b *testing.B) {
	s := kit.NewSession(b, redistest.Start(b))
	m, owner := s.Mutex("lock"), s.NewContext(kit.Background)
	require.NoError(b, m.Lock(owner))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, relock.Do(owner, m, func(context.Context) error { return nil }))
	}
}
