package bench_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

const (
	keepers   = 4    // processes
	keepNames = 1000 // of each, and as many that they share
	keepSpan  = 500 * time.Millisecond
)

var keepOption = relock.WithKeep(time.Minute)

// keep measures locks that are kept between uses: what a pair costs, the same over many names of which some are used
// by all processes (the sweep of locality of ALock, arXiv 2404.17980), and the first acquisition by another process.
func (t *table) keep(b *testing.B, srv *redistest.Server) {
	kept := benchSession(b, srv).Mutex("kept", keepOption)
	for range 10 { // until it has tokens for more
		lockUnlock(kit.Background, kept)
		time.Sleep(time.Millisecond)
	}
	m := inTurns(benchRounds, pairFloor(b, srv), pairs(1000, kit.Background, kept))
	t.add("kept Lock+Unlock, one goroutine", m[1], m[0], 0.05, 4)
	t.counts("  its allocations", allocs(kit.Background, kept), 1)

	rounds := least(1, 5)
	for _, c := range []struct {
		own    int // % of the calls
		target float64
	}{{0, 0.95}, {50, 1.3}, {95, 5}, {100, 50}} {
		with, without := locality(b, srv, c.own, keepOption), locality(b, srv, c.own)
		m := inTurns(rounds, without, with)
		t.reaches(fmt.Sprintf("%d processes, %d %% of the calls for own names, kept", keepers, c.own), m[1], m[0],
			" without WithKeep", perSecond, c.target, 2)
	}
	t.recall(b, srv)
}

// locality returns what measures calls by one goroutine in each process, of which a share is for names that no other
// uses.
func locality(b *testing.B, srv *redistest.Server, own int, opts ...relock.LockOption) func() float64 {
	var all [keepers][2][]*relock.Mutex // shared ones, own ones
	world := rand.Int()
	for i := range all {
		s := benchSession(b, srv)
		for n := range keepNames {
			all[i][0] = append(all[i][0], s.Mutex(fmt.Sprintf("shared-%d-%d", world, n), opts...))
			all[i][1] = append(all[i][1], s.Mutex(fmt.Sprintf("own-%d-%d-%d", world, i, n), opts...))
		}
	}
	warm := false
	return func() float64 {
		if !warm {
			throughputOf(keepers, func(i int) {
				for n := range 2 * keepNames { // the first token of a name is alone; names that others use are not kept after that
					lockUnlock(kit.Background, all[i][0][n%keepNames])
					lockUnlock(kit.Background, all[i][1][n%keepNames])
				}
			})
		}
		warm = true
		return throughput(keepSpan, keepers, func(i int) {
			of := all[i][0]
			if rand.IntN(100) < own {
				of = all[i][1]
			}
			lockUnlock(kit.Background, of[rand.IntN(keepNames)])
		})
	}
}

// throughputOf runs f once in each of n goroutines.
func throughputOf(n int, f func(i int)) {
	done := make(chan struct{}, n)
	for i := range n {
		go func() { // joined below
			f(i)
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
}

// recall measures the first Lock of what another process keeps, against a hand-over from who holds it.
func (t *table) recall(b *testing.B, srv *redistest.Server) {
	keeper, other := benchSession(b, srv), benchSession(b, srv)
	n := 0
	measure := func(keeps bool) func() float64 {
		return func() float64 {
			n++
			name := fmt.Sprintf("recalled-%d", n)
			held, next := keeper.Mutex(name, keepOption), other.Mutex(name)
			h, err := held.Acquire(kit.Background)
			kit.ChildCheck(err)
			if keeps {
				kit.ChildCheck(h.Unlock(kit.Background))
			}
			start, got := time.Now(), make(chan time.Time, 1)
			go func() { // joined below
				kit.ChildCheck(next.Lock(kit.Background))
				got <- time.Now()
			}()
			if !keeps {
				<-h.Wanted()
				time.Sleep(time.Millisecond)
				start = time.Now()
				kit.ChildCheck(h.Unlock(kit.Background))
			}
			ns := float64((<-got).Sub(start))
			kit.ChildCheck(next.Unlock(kit.Background))
			return ns
		}
	}
	m := inTurns(4*benchRounds, measure(false), measure(true))
	t.add("first Lock of what another process keeps, against a hand-over", m[1], m[0], 1.6, 2)
}
