package virtual_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// oneWay is how far the processes are from Redis.
const oneWay = 2 * time.Millisecond

// visits is a record of what the processes of a read-write lock have done.
type visits struct {
	mu   sync.Mutex
	all  []visit
	torn [2]int // written one after the other by writers, and compared by readers
}

type visit struct {
	process, side    string
	asked, got, left time.Time
}

// keep has a process take and leave one side of its lock until the end, with sections and pauses
// of random lengths.
func (v *visits) keep(t *testing.T, s *relock.Session, name, side string, end time.Time, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	some := func(most time.Duration) { time.Sleep(time.Duration(rnd.Int64N(int64(most)))) }
	l := relock.Locker(s.RWMutex("a"))
	if side == "read" {
		l = s.RWMutex("a").RLocker()
	}
	for time.Now().Before(end) {
		some(20 * time.Millisecond)
		visit := visit{process: name, side: side, asked: time.Now()}
		if err := l.Lock(background); err != nil {
			t.Error(err)
			return
		}
		visit.got = time.Now()
		v.use(t, side, func() { some(10 * time.Millisecond) })
		visit.left = time.Now()
		if err := l.Unlock(background); err != nil {
			t.Error(err)
			return
		}
		v.mu.Lock()
		v.all = append(v.all, visit)
		v.mu.Unlock()
	}
}

// use writes a pair of numbers, with a section in between, or sees that it is no half of one.
func (v *visits) use(t *testing.T, side string, section func()) {
	get := func() [2]int { v.mu.Lock(); defer v.mu.Unlock(); return v.torn }
	set := func(i, n int) { v.mu.Lock(); defer v.mu.Unlock(); v.torn[i] = n }
	before := get()
	if side == "write" {
		set(0, before[0]+1)
	}
	section()
	after := get()
	if side == "write" {
		set(1, before[1]+1)
	} else if after != before {
		t.Errorf("%v became %v under a reader", before, after)
	}
	if before[0] != before[1] || side == "write" && after != [2]int{before[0] + 1, before[1]} {
		t.Errorf("%v became %v under a %sr", before, after, side)
	}
}

// during returns the visits to a side that Redis has granted, other than w, from when w queued
// until it got the lock.
func (v *visits) during(w visit, side string) (some []visit) {
	for _, x := range v.all {
		if x.side == side && x != w && x.got.After(w.asked.Add(2*oneWay)) && x.got.Before(w.got) {
			some = append(some, x)
		}
	}
	return some
}

// before returns the last writer that had the lock before x.
func (v *visits) before(x visit) (last visit) {
	for _, h := range v.all {
		if h.side == "write" && h.got.Before(x.got) && h.got.After(last.got) {
			last = h
		}
	}
	return last
}

// check checks that readers and writers took turns. A reader that came while a writer had the
// lock goes before the writers that queue; one that came later does not.
func (v *visits) check(t *testing.T, writers int) {
	t.Helper()
	for _, w := range v.all {
		others := len(v.during(w, "write"))
		if w.side == "read" {
			require.LessOrEqual(t, others, 1, "writers before a reader: %+v", w)
			continue
		}
		require.LessOrEqual(t, others, writers-1, "others overtake: %+v", w)
		for _, x := range v.during(w, "read") {
			require.False(t, x.asked.After(v.before(x).left), "%+v overtakes %+v", x, w)
		}
	}
}

// Processes that read and write all the time, at a distance from Redis: a reader waits for one
// writer at most, a writer for one phase of readers and the writers before it.
func TestReadersAndWritersTakeTurns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ readers, writers int }{{6, 1}, {2, 6}, {5, 4}, {110, 2}} {
		t.Run(fmt.Sprintf("%d readers, %d writers", c.readers, c.writers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := relocktest.New(t)
				var v visits
				var wg sync.WaitGroup
				sessions := make([]*relock.Session, c.readers+c.writers)
				for i := range sessions {
					sessions[i] = r.Session(relock.WithTenure(0))
					l := sessions[i].RWMutex("a")
					require.NoError(t, l.RLock(background))
					require.NoError(t, l.RUnlock(background))
					require.NoError(t, l.Lock(background))
					require.NoError(t, l.Unlock(background))
					r.Delay(sessions[i], oneWay)
				}
				end := time.Now().Add(20 * time.Second / time.Duration(len(sessions)))
				for i, s := range sessions {
					side := "read"
					if i >= c.readers {
						side = "write"
					}
					wg.Go(func() { v.keep(t, s, fmt.Sprint(side, i), side, end, uint64(i)) })
				}
				wg.Wait()
				v.check(t, c.writers)
				t.Log(len(v.all), "visits")
				require.Greater(t, len(v.all), 2*len(sessions))
			})
		})
	}
}
