package bench_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// semaphore measures Lock+Unlock of a permit beside that of a Mutex: with limits from 1 to 10,000, and beside up to
// 10,000 other holders, with and without gaps in their slots.
func (t *table) semaphore(b *testing.B, srv *redistest.Server) {
	t.permitRate(b, srv) // before there are others who renew
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
	t.forced(b, srv)
}

// permitRate measures for which part of the time 16 permits are in use when 64 goroutines in 4 sessions have sections of
// 5 ms, beside that of 16 places of a channel. A rate would say less: how much longer a goroutine sleeps than it is to
// depends on how many wake up together.
func (t *table) permitRate(b *testing.B, srv *redistest.Server) {
	const permits, section = 16, 5 * time.Millisecond
	var sems []*relock.Semaphore
	for range 4 {
		sems = append(sems, benchSession(b, srv).Semaphore("permits-rate", permits))
	}
	places := make(chan struct{}, permits)
	inUse := func(lock, unlock func(i int)) func() float64 {
		return func() float64 {
			var slept atomic.Int64
			start := time.Now()
			throughput(2*time.Second, benchGoroutines, func(i int) {
				lock(i)
				at := time.Now()
				time.Sleep(section)
				slept.Add(int64(time.Since(at)))
				unlock(i)
			})
			return float64(slept.Load()) / float64(permits*time.Since(start))
		}
	}
	m := inTurns(3,
		inUse(func(int) { places <- struct{}{} }, func(int) { <-places }),
		inUse(func(i int) { kit.ChildCheck(sems[i%4].Lock(kit.Background)) },
			func(i int) { kit.ChildCheck(sems[i%4].Unlock(kit.Background)) }))
	t.reaches("16 permits in use, 64 goroutines in 4 sessions, sections of 5 ms", m[1], m[0], " channel",
		func(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }, 0.95, 3)
}

// losses counts the holds that were lost.
type losses struct {
	relock.NopObserver
	n atomic.Int64
}

func (l *losses) Lost(relock.LostEvent) { l.n.Add(1) }

// forced measures how long it takes until a process knows that its permits were forced open, for each of 10,000 and of
// a tenth of them.
func (t *table) forced(b *testing.B, srv *redistest.Server) {
	other, many := benchSession(b, srv), least(100, 10_000)
	told := func(n int) func() float64 {
		seen := new(losses)
		sem := benchSession(b, srv, relock.WithObserver(seen)).Semaphore(fmt.Sprint("permits-forced-", n), n)
		return func() float64 {
			seen.n.Store(0)
			for range n {
				kit.ChildCheck(sem.Lock(kit.Background))
			}
			took := nsPerOp(1, func() {
				_, err := other.ForceUnlock(kit.Background, sem.Name())
				kit.ChildCheck(err)
				for seen.n.Load() < int64(n) {
					time.Sleep(time.Millisecond)
				}
			})
			for range n {
				_ = sem.Unlock(kit.Background) // it was lost
			}
			return took / float64(n)
		}
	}
	m := inTurns(3, told(many/10), told(many))
	t.grows(fmt.Sprintf("telling of %d permits forced open, each", many), m[1], m[0], " of a tenth", took, 3, 3)
}
