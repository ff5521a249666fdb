package bench_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"golang.org/x/sync/errgroup"
)

// semaphore measures Lock+Unlock of a permit beside that of a Mutex: with limits from 1 to 10,000, and beside up to
// 10,000 other holders, with and without gaps in their slots. Then it measures how many sections of 5 ms 64 goroutines
// in 4 sessions have under 16 permits, beside the most that there can be.
func (t *table) semaphore(b *testing.B, srv *redistest.Server) {
	many := least(100, 10_000)
	s, other := benchSession(b, srv), benchSession(b, srv)
	beside := func(name string, holders int, gaps bool) relock.Locker {
		held := make([]*relock.Semaphore, holders)
		for i := range held {
			held[i] = other.Semaphore(name, many+1)
			kit.ChildCheck(held[i].Lock(kit.Background))
		}
		for i := holders / 3; gaps && i < holders; i += 7 {
			kit.ChildCheck(held[i].Unlock(kit.Background))
		}
		return s.Semaphore(name, many+1)
	}
	of := []struct {
		title string
		lock  relock.Locker
	}{
		{"n = 1", s.Semaphore("permits-1", 1)},
		{fmt.Sprintf("n = %d", many), s.Semaphore("permits-many", many)},
		{"32 holders", beside("permits-32", 32, false)},
		{fmt.Sprintf("%d holders", many), beside("permits-held", many, false)},
		{fmt.Sprintf("%d holders with gaps", many), beside("permits-gaps", many, true)},
	}
	measured := []func() float64{pairs(200, kit.Background, s.Mutex("permits-mutex"))}
	for _, o := range of {
		measured = append(measured, pairs(200, kit.Background, o.lock))
	}
	m := inTurns(benchRounds, measured...)
	for i, o := range of {
		t.grows("Semaphore Lock+Unlock, "+o.title, m[i+1], m[0], " Mutex", took, 1.3, 3)
	}

	const permits, section = 16, 5 * time.Millisecond
	span := least(200*time.Millisecond, 4*time.Second)
	var done atomic.Int64
	var eg errgroup.Group
	ctx, stop := context.WithTimeout(kit.Background, span)
	defer stop()
	for range 4 {
		sem := benchSession(b, srv).Semaphore("permits-rate", permits)
		for range benchGoroutines / 4 {
			eg.Go(func() error {
				for ctx.Err() == nil {
					_ = relock.Do(ctx, sem, func(context.Context) error {
						time.Sleep(section)
						done.Add(1)
						return nil
					})
				}
				return nil
			})
		}
	}
	_ = eg.Wait()
	ideal := float64(permits) * span.Seconds() / section.Seconds()
	t.reaches("  64 goroutines on 16 permits, sections of 5 ms", float64(done.Load()), ideal, " ideal",
		func(n float64) string { return fmt.Sprintf("%.0f", n) }, 0.95, 3)
}
