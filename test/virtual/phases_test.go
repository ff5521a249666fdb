package virtual_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// oneWay is how far the processes are from Redis.
const oneWay = 2 * time.Millisecond

// A visit is a turn of a process with one side of a read-write lock.
type visit struct {
	process          int
	side             *lockType
	asked, got, left time.Time
}

// visits are all of them.
type visits struct {
	mu  sync.Mutex
	all []visit
}

// keep has a process take and leave one side of its lock until the end, with sections and pauses
// of random lengths.
func (v *visits) keep(t *testing.T, p *process, n int, side *lockType, end time.Time) {
	rnd := rand.New(rand.NewPCG(uint64(n), 1))
	some := func(most time.Duration) { time.Sleep(time.Duration(rnd.Int64N(int64(most)))) }
	for l := side.make(p.s); time.Now().Before(end); {
		some(20 * time.Millisecond)
		visit := visit{process: n, side: side, asked: time.Now()}
		assert.NoError(t, l.Lock(background))
		visit.got = time.Now()
		some(10 * time.Millisecond)
		visit.left = time.Now()
		assert.NoError(t, l.Unlock(background))
		v.mu.Lock()
		v.all = append(v.all, visit)
		v.mu.Unlock()
	}
}

// during returns the visits to a side that Redis has granted, other than w, from when w queued
// until it got the lock.
func (v *visits) during(w visit, side *lockType) (some []visit) {
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
		if h.side == writer && h.got.Before(x.got) && h.got.After(last.got) {
			last = h
		}
	}
	return last
}

// check asserts that writers exclude everybody, and who goes before whom. A reader that queued before the last writer
// left the lock goes before the writers that queue; one that came later does not.
func (v *visits) check(t *testing.T, writers int) {
	t.Helper()
	for _, w := range v.all {
		others := len(v.during(w, writer))
		if w.side == reader {
			require.LessOrEqual(t, others, 1, "writers before a reader: %+v", w)
			continue
		}
		require.LessOrEqual(t, others, writers-1, "others overtake: %+v", w)
		for _, x := range v.during(w, reader) {
			require.False(t, x.asked.After(v.before(x).left), "%+v overtakes %+v", x, w)
		}
		for _, x := range v.all {
			require.False(t, x != w && x.got.Before(w.left) && w.got.Before(x.left), "%+v beside %+v", x, w)
		}
	}
}

// Processes that read and write all the time, at a distance from Redis: a reader waits for one
// writer at most, a writer for one phase of readers and the writers before it.
func TestReadersAndWritersTakeTurns(t *testing.T) {
	for _, c := range []struct{ readers, writers int }{{6, 1}, {2, 6}, {5, 4}, {110, 2}} {
		t.Run(fmt.Sprintf("%d readers, %d writers", c.readers, c.writers), func(t *testing.T) {
			alone(t, writer, func(t *testing.T, w *world) {
				sides := make([]*lockType, c.readers+c.writers)
				var v visits
				var ps []*process
				for i := range sides {
					sides[i] = map[bool]*lockType{true: reader, false: writer}[i < c.readers]
					p := w.process(relock.WithTenure(0))
					for _, typ := range []*lockType{reader, writer} {
						l := typ.make(p.s)
						require.NoError(t, l.Lock(background))
						require.NoError(t, l.Unlock(background))
					}
					p.delay(oneWay)
					ps = append(ps, p)
				}
				end := time.Now().Add(20 * time.Second / time.Duration(len(ps)))
				var wg sync.WaitGroup
				for i, p := range ps {
					wg.Go(func() { v.keep(t, p, i, sides[i], end) })
				}
				wg.Wait()
				v.check(t, c.writers)
				t.Log(len(v.all), "visits")
				require.Greater(t, len(v.all), 2*len(ps))
			})
		})
	}
}
