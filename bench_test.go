package relock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Benchmarks for comparing versions with benchstat. One operation is a Do around nothing: a Lock and an
// Unlock. BenchmarkTable in test/bench measures a floor in turns with each figure, which says
// more on a machine that is not idle.

func BenchmarkLocks(b *testing.B) {
	srv := redistest.Start(b)
	nothing := func(context.Context) error { return nil }
	for _, typ := range []struct {
		name string
		of   func(s *relock.Session, name string) relock.Locker
	}{
		{"Mutex", func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) }},
		{"FairMutex", func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) }},
		{"write", func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) }},
		{"read", func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name).RLocker() }},
	} {
		for _, shape := range [][2]int{{1, 1}, {1, 64}, {64, 64}} {
			names, goroutines := shape[0], shape[1]
			b.Run(fmt.Sprintf("%s/names=%d/goroutines=%d", typ.name, names, goroutines), func(b *testing.B) {
				s := kit.NewSession(b, srv)
				b.ReportAllocs()
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				require.NoError(b, kit.Together(goroutines, func(i int) (err error) {
					l := typ.of(s, fmt.Sprint("lock-", i%names))
					for err == nil && left.Add(-1) >= 0 {
						err = relock.Do(kit.Background, l, nothing)
					}
					return err
				}))
			})
		}
	}
	b.Run("re-entry", func(b *testing.B) { // without Redis
		s := kit.NewSession(b, srv)
		m, owner := s.Mutex("held"), s.NewContext(kit.Background)
		kit.Lock(b, owner, m)
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, relock.Do(owner, m, nothing))
		}
	})
}
