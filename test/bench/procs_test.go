package bench_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func init() {
	kit.Roles["bench-contend"] = benchContend
	kit.Roles["bench-write"] = benchWrite
}

const benchProcesses = 4

// contention measures processes that want the same lock, with several goroutines
// each. The floor is the pair floor: what each of them would pay at best if it asked
// Redis and had nobody to wait for.
func (t *table) contention(b *testing.B, srv *redistest.Server) {
	const goroutines = 8
	const span = 200 * time.Millisecond
	children := make([]*redistest.Proc, benchProcesses)
	for i := range children {
		children[i] = redistest.Child(b, "bench-contend", srv.Addr(), "contended", strconv.Itoa(goroutines), "0s")
		expect(children[i], "ready")
	}
	totals := make([]float64, len(children))
	var longest time.Duration
	m := inTurns(benchRounds,
		pairFloor(b, srv),
		func() float64 {
			for _, c := range children {
				_ = c.Send(span.String())
			}
			sum := 0.0
			for i, c := range children {
				var n float64
				var wait time.Duration
				expect(c, "done ", &n, (*int64)(&wait))
				totals[i] += n
				sum += n
				longest = max(longest, wait)
			}
			return float64(span) / sum
		},
	)
	name := fmt.Sprintf("%d processes × %d goroutines on one name", len(children), goroutines)
	t.add(name, m[1], m[0], 0.25, 4)
	count := func(n float64) string { return fmt.Sprintf("%.0f", n) }
	t.grows("  its busiest process by its least busy", slices.Max(totals), slices.Min(totals), "", count, 1.5, 3)
	t.rows = append(t.rows, row{
		name:   "  its longest wait, ms",
		figure: fmt.Sprint(longest.Round(100 * time.Microsecond)), floor: "-",
		ratio: float64(longest) / 1e6, target: 1000,
	})
}

// benchContend locks and unlocks for as long as each line of input says.
func benchContend(args []string) { // address, name, goroutines, section
	s, client := kit.ChildSession(args[0])
	defer client.Close()
	m := s.Mutex(args[1])
	goroutines, err := strconv.Atoi(args[2])
	kit.ChildCheck(err)
	section, err := time.ParseDuration(args[3])
	kit.ChildCheck(err)
	fmt.Println("ready")
	eachLine(func(line string) {
		span, err := time.ParseDuration(line)
		kit.ChildCheck(err)
		var count, longest atomic.Int64
		throughput(span, goroutines, func(int) {
			start := time.Now()
			kit.ChildCheck(m.Lock(kit.Background))
			wait := int64(time.Since(start))
			for old := longest.Load(); wait > old && !longest.CompareAndSwap(old, wait); old = longest.Load() {
			}
			pass(section)
			count.Add(1)
			kit.ChildCheck(m.Unlock(kit.Background))
		})
		fmt.Println("done", count.Load(), longest.Load())
	})
}

// readWrite measures the sides of an RWMutex that nobody else wants against the pair
// floor, which is that of a Mutex: the bare acquire and release.
func (t *table) readWrite(b *testing.B, srv *redistest.Server) {
	floor, s := pairFloor(b, srv), benchSession(b, srv)
	alone, shared := s.RWMutex("alone"), s.RWMutex("shared").RLocker()
	kit.ChildCheck(s.RWMutex("shared").RLock(kit.Background))
	m := inTurns(benchRounds,
		floor, pairs(200, kit.Background, alone.RLocker()),
		floor, pairs(200, kit.Background, alone),
		floor, pairs(20_000, kit.Background, shared),
	)
	t.add("uncontended RLock+RUnlock", m[1], m[0], 1.4, 3)
	t.add("uncontended write Lock+Unlock", m[3], m[2], 1.4, 3)
	t.add("RLock+RUnlock while the process reads", m[5], m[4], 0.01, 5)
	t.manyReaders(b, srv, time.Millisecond, 20)
	t.manyReaders(b, srv, 0, 1)
}

// manyReaders measures goroutines that read, while another process writes once for
// every 99 reads, until all is done; against as many goroutines, in two processes, that
// use a Mutex instead. A reader and a writer, and who has the Mutex, keeps it for as
// long as the section says. (Where that is no time at all, a Mutex goes from one
// goroutine to the next in memory, and readers cannot be faster by much.)
func (t *table) manyReaders(b *testing.B, srv *redistest.Server, section time.Duration, target float64) {
	const span = 300 * time.Millisecond
	name := "sections-" + section.String()
	writer := redistest.Child(b, "bench-write", srv.Addr(), name, section.String())
	sections := redistest.Child(b, "bench-contend", srv.Addr(), name+"-mutex", strconv.Itoa(benchGoroutines/2), section.String())
	for _, c := range []*redistest.Proc{writer, sections} {
		expect(c, "ready")
	}
	s := benchSession(b, srv)
	rw, m := s.RWMutex(name), s.Mutex(name+"-mutex")
	count := func(c *redistest.Proc) (n float64) {
		expect(c, "done ", &n)
		return n
	}
	r := inTurns(benchRounds/10,
		func() float64 {
			var reads atomic.Int64
			start := time.Now()
			throughput(span, benchGoroutines, func(int) {
				kit.ChildCheck(rw.RLock(kit.Background))
				pass(section)
				kit.ChildCheck(rw.RUnlock(kit.Background))
				if reads.Add(1)%99 == 0 {
					_ = writer.Send("write")
				}
			})
			_ = writer.Send("end")
			return (float64(reads.Load()) + count(writer)) / float64(time.Since(start))
		},
		func() float64 {
			_ = sections.Send(span.String())
			ours := throughput(span, benchGoroutines/2, func(int) {
				kit.ChildCheck(m.Lock(kit.Background))
				pass(section)
				kit.ChildCheck(m.Unlock(kit.Background))
			})
			return ours + count(sections)/float64(span)
		},
	)
	t.reaches(fmt.Sprintf("%d readers, 1 %% writes elsewhere, sections of %v", benchGoroutines, section), r[0], r[1],
		" (Mutex, two processes)", perSecond, target, 1)
}

// pass lets the time of a section go by.
func pass(section time.Duration) {
	if section > 0 {
		time.Sleep(section)
	}
}

// benchWrite writes once for each line of input, in a few goroutines, and tells at the
// line "end" how often it has.
func benchWrite(args []string) { // address, name, section
	s, client := kit.ChildSession(args[0])
	defer client.Close()
	section, err := time.ParseDuration(args[2])
	kit.ChildCheck(err)
	var writers errgroup.Group
	writers.SetLimit(8)
	fmt.Println("ready")
	count := 0
	eachLine(func(line string) {
		if line == "end" {
			_ = writers.Wait()
			fmt.Println("done", count)
			count = 0
			return
		}
		count++
		writers.Go(func() error {
			rw := s.RWMutex(args[1])
			kit.ChildCheck(rw.Lock(kit.Background))
			pass(section)
			kit.ChildCheck(rw.Unlock(kit.Background))
			return nil
		})
	})
}
