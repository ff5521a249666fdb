package bench_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"golang.org/x/sync/errgroup"
)

// contention measures processes that want the same lock, with several goroutines
// each. The floor is the pair floor: what each of them would pay at best if it asked
// Redis and had nobody to wait for.
func (t *table) contention(b *testing.B, srv *redistest.Server) {
	const processes, goroutines, span = 4, 8, 200 * time.Millisecond
	children := make([]*redistest.Proc, processes)
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
			time.Sleep(section)
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
				time.Sleep(section)
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
				time.Sleep(section)
				kit.ChildCheck(m.Unlock(kit.Background))
			})
			return ours + count(sections)/float64(span)
		},
	)
	t.reaches(fmt.Sprintf("%d readers, 1 %% writes elsewhere, sections of %v", benchGoroutines, section), r[0], r[1],
		" (Mutex, two processes)", perSecond, target, 1)
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
			time.Sleep(section)
			kit.ChildCheck(rw.Unlock(kit.Background))
			return nil
		})
	})
}

const (
	herdSection = 500 * time.Microsecond
	herdWarmUp  = 400 * time.Millisecond
	herdSpan    = 1500 * time.Millisecond
	herdRounds  = 5
	herdGrowth  = 1.25 // at most, from the smallest herd to the largest
	herdUnfair  = 1.5  // the longest wait by that of a strict order of arrival, at most
)

// herdSizes are numbers of processes, which are compared.
var herdSizes = [2]int{2, 128}

var herdKinds = []struct {
	name string
	lock locker
}{{"Mutex", mutexOf}, {"FairMutex", fairOf}, {"RWMutex, writers", writeOf}}

// herdFigures are what a herd got and what it took.
type herdFigures [4]float64

const (
	rate     = iota // acquisitions a second
	server          // its time for each, in ns
	commands        // of each, those of scripts too
	longest         // wait, in ns
)

// herd measures processes that hammer one name with sections of half a millisecond, one
// goroutine each. What a hand-over takes must not grow with their number. Sizes and lock
// types are measured in turns; only those processes have a session that take part.
func (t *table) herd(b *testing.B, srv *redistest.Server) {
	sizes := least([2]int{2, 8}, herdSizes)
	small, large := sizes[0], sizes[1]
	h := herd{srv: srv, children: make([]*redistest.Proc, large)}
	for i := range h.children {
		h.children[i] = redistest.ChildIn(b, []string{"GOMAXPROCS=1"}, "bench-herd", srv.Addr())
	}
	h.expect(large, "started")
	got := make([]map[int][]herdFigures, len(herdKinds))
	for i := range herdKinds {
		got[i] = make(map[int][]herdFigures)
	}
	for range least(1, herdRounds) {
		for _, n := range sizes {
			h.tell(n, "open")
			h.expect(n, "opened")
			for i := range herdKinds {
				got[i][n] = append(got[i][n], h.run(i, n))
			}
			h.tell(n, "close")
			h.expect(n, "closed")
		}
	}
	for i, kind := range herdKinds {
		t.herdRows(kind.name, small, large, got[i])
	}
}

// herdRows compares the largest herd with the smallest one. Its longest wait is compared
// with a place at the end of the queue: as many sections and hand-overs as there are processes.
func (t *table) herdRows(kind string, small, large int, got map[int][]herdFigures) {
	few, many := medians(got[small]), medians(got[large])
	turn := 1e9 / few[rate] // a section and a hand-over
	beside := fmt.Sprintf(" (n = %d)", small)
	t.reaches(fmt.Sprintf("%d processes, sections of %v, %s", large, herdSection, kind),
		many[rate]/1e9, few[rate]/1e9, beside, perSecond, 1/herdGrowth, 3)
	t.grows("  server time of each", many[server], few[server], beside, took, herdGrowth, 3)
	t.grows("  commands of each", many[commands], few[commands], beside,
		func(n float64) string { return fmt.Sprintf("%.1f", n) }, herdGrowth, 3)
	t.grows("  longest wait", many[longest], float64(large)*turn, fmt.Sprintf(" (%d × %s)", large, took(turn)),
		func(ns float64) string { return fmt.Sprintf("%.0f ms", ns/1e6) }, herdUnfair, 3)
}

func medians(of []herdFigures) (m herdFigures) {
	for i := range m {
		var all []float64
		for _, figures := range of {
			all = append(all, figures[i])
		}
		m[i] = median(all)
	}
	return m
}

// herd is the parent's side of the processes.
type herd struct {
	srv      *redistest.Server
	children []*redistest.Proc
	runs     int
}

func (h *herd) tell(n int, line string) {
	for _, c := range h.children[:n] {
		_ = c.Send(line) // of which expect tells
	}
}

// expect waits until each of n processes has said a word.
func (h *herd) expect(n int, word string) {
	for _, c := range h.children[:n] {
		expect(c, word)
	}
}

// run has n processes hammer a new name, and looks at the server in the meantime.
func (h *herd) run(kind, n int) herdFigures {
	h.runs++
	start := kit.Monotonic() + int64(100*time.Millisecond)
	from := start + int64(herdWarmUp)
	span := least(herdSpan/5, herdSpan)
	to := from + int64(span)
	h.tell(n, fmt.Sprintf("run %d herd-%d %d %d %d", kind, h.runs, start, from, to))
	sleepUntil(from)
	cpu, commandsBefore := serverLoad(h.srv)
	sleepUntil(to)
	cpuAfter, commandsAfter := serverLoad(h.srv)
	var total, most float64
	for _, c := range h.children[:n] {
		var count, wait float64
		expect(c, "done ", &count, &wait)
		total += count
		most = max(most, wait)
	}
	benchCheck(total > 0, "nobody of %d processes got the lock", n)
	return herdFigures{total / span.Seconds(), (cpuAfter - cpu) / total, (commandsAfter - commandsBefore) / total, most}
}

func sleepUntil(at int64) { time.Sleep(time.Duration(at - kit.Monotonic())) }

// serverLoad returns the server's processor time in nanoseconds, and how many commands it
// has executed, those of scripts among them.
func serverLoad(srv *redistest.Server) (cpu, commands float64) {
	for name, calls := range srv.CommandStats() {
		if name != "info" {
			commands += float64(calls)
		}
	}
	return float64(srv.CPU()), commands
}

// benchHerd is a process of the herd. It counts what it gets from one point in time to
// another, and goes on a little longer so that the herd has its full size until then.
// The longest wait may have begun before and may end later.
func benchHerd(args []string) { // address
	const after = 100 * time.Millisecond
	fmt.Println("started")
	var s *relock.Session
	var client rueidis.Client
	eachLine(func(line string) {
		switch line {
		case "open":
			s, client = kit.ChildSession(args[0])
			fmt.Println("opened")
		case "close":
			kit.ChildCheck(s.Close(kit.Background))
			client.Close()
			fmt.Println("closed")
		default:
			var kind int
			var name string
			var start, from, to int64
			_, err := fmt.Sscanf(line, "run %d %s %d %d %d", &kind, &name, &start, &from, &to)
			kit.ChildCheck(err)
			count, longest := hammer(herdKinds[kind].lock(s, name), start, from, to, to+int64(after))
			fmt.Println("done", count, longest)
		}
	})
}

// hammer locks and unlocks from start to end. It counts between from and to.
func hammer(l relock.Locker, start, from, to, end int64) (count, longest int64) {
	sleepUntil(start)
	for called := kit.Monotonic(); called < end; called = kit.Monotonic() {
		kit.ChildCheck(l.Lock(kit.Background))
		got := kit.Monotonic()
		kit.Nap(herdSection)
		kit.ChildCheck(l.Unlock(kit.Background))
		if got >= from {
			longest = max(longest, got-called)
		}
		if got >= from && got < to {
			count++
		}
	}
	return count, longest
}
