package relock_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// Benchmarks for comparing versions with benchstat. One operation is a Lock and an
// Unlock. BenchmarkBare is the same as the bare calls; BenchmarkTable measures both in
// turns, which says more on a machine that is not idle.

// spread runs f in each of n goroutines until all of them together have done it b.N
// times.
func spread(b *testing.B, n int, f func(i int)) {
	b.Helper()
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	err := together(n, func(i int) error {
		for left.Add(-1) >= 0 {
			f(i)
		}
		return nil
	})
	b.StopTimer()
	benchCheck(err == nil, "%v", err)
}

// shapes are numbers of names and of goroutines, which are spread over the names.
var shapes = [][2]int{{1, 1}, {1, 64}, {64, 64}}

func byShape(b *testing.B, run func(b *testing.B, names, goroutines int)) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("names=%d/goroutines=%d", s[0], s[1]), func(b *testing.B) { run(b, s[0], s[1]) })
	}
}

func BenchmarkBare(b *testing.B) {
	srv := redistest.Start(b)
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprintf("names=%d/goroutines=%d", goroutines, goroutines), func(b *testing.B) {
			c := &bare{client: newClient(b, srv)}
			benchCheck(loadScripts(c.client) == nil, "SCRIPT LOAD failed")
			locks := make([]bareLock, goroutines)
			for i := range locks {
				locks[i] = newBareLock(fmt.Sprint("bare-", i))
			}
			spread(b, goroutines, func(i int) { c.pair(&locks[i]) })
		})
	}
}

// lockers makes one lock for each name and measures Lock and Unlock of it.
func lockers(b *testing.B, make func(s *relock.Session, name string) relock.Locker) {
	srv := redistest.Start(b)
	byShape(b, func(b *testing.B, names, goroutines int) {
		s := benchSession(b, srv)
		locks := []relock.Locker{}
		for i := range names {
			locks = append(locks, make(s, fmt.Sprint("lock-", i)))
		}
		spread(b, goroutines, func(i int) { lockUnlock(background, locks[i%names]) })
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
	s := benchSession(b, redistest.Start(b))
	m, owner := s.Mutex("lock"), s.NewContext(background)
	err := m.Lock(owner)
	benchCheck(err == nil, "Lock: %v", err)
	b.ReportAllocs()
	for b.Loop() {
		lockUnlock(owner, m)
	}
}
