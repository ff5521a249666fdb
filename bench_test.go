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

// Benchmarks for comparing versions with benchstat. One operation is a Lock and an
// Unlock. BenchmarkTable in test/bench measures a floor in turns with each figure, which says
// more on a machine that is not idle.

// spread runs f in each of n goroutines until all of them together have done it b.N
// times.
func spread(b *testing.B, n int, f func(i int)) {
	b.Helper()
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	err := kit.Together(n, func(i int) error {
		for left.Add(-1) >= 0 {
			f(i)
		}
		return nil
	})
	b.StopTimer()
	require.NoError(b, err)
}

// shapes are numbers of names and of goroutines, which are spread over the names.
var shapes = [][2]int{{1, 1}, {1, 64}, {64, 64}}

func byShape(b *testing.B, run func(b *testing.B, names, goroutines int)) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("names=%d/goroutines=%d", s[0], s[1]), func(b *testing.B) { run(b, s[0], s[1]) })
	}
}

// lockUnlock panics where Lock and Unlock fail: in goroutines FailNow may not be called.
func lockUnlock(ctx context.Context, l relock.Locker) {
	if err := errors.Join(l.Lock(ctx), l.Unlock(ctx)); err != nil {
		panic(err)
	}
}

// lockers makes one lock for each name and measures Lock and Unlock of it.
func lockers(b *testing.B, make func(s *relock.Session, name string) relock.Locker) {
	srv := redistest.Start(b)
	byShape(b, func(b *testing.B, names, goroutines int) {
		s := kit.NewSession(b, srv)
		locks := []relock.Locker{}
		for i := range names {
			locks = append(locks, make(s, fmt.Sprint("lock-", i)))
		}
		spread(b, goroutines, func(i int) { lockUnlock(kit.Background, locks[i%names]) })
	})
}

func BenchmarkMutex(b *testing.B) {
	lockers(b, func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) })
}

func BenchmarkFairMutex(b *testing.B) {
	lockers(b, func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) })
}

func BenchmarkRWMutexWrite(b *testing.B) {
	lockers(b, func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) })
}

func BenchmarkRWMutexRead(b *testing.B) {
	lockers(b, func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name).RLocker() })
}

func BenchmarkReentry(b *testing.B) {
	s := kit.NewSession(b, redistest.Start(b))
	m, owner := s.Mutex("lock"), s.NewContext(kit.Background)
	require.NoError(b, m.Lock(owner))
	b.ReportAllocs()
	for b.Loop() {
		lockUnlock(owner, m)
	}
}

// Do under an owner that has the lock: what Do itself costs, without Redis.
func BenchmarkDo(b *testing.B) {
	s := kit.NewSession(b, redistest.Start(b))
	m, owner := s.Mutex("lock"), s.NewContext(kit.Background)
	require.NoError(b, m.Lock(owner))
	b.ReportAllocs()
	for b.Loop() {
		if err := relock.Do(owner, m, func(context.Context) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// Do of a lock that nobody else wants.
func BenchmarkDoFree(b *testing.B) {
	m := kit.NewSession(b, redistest.Start(b)).Mutex("lock")
	b.ReportAllocs()
	for b.Loop() {
		if err := relock.Do(kit.Background, m, func(context.Context) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
