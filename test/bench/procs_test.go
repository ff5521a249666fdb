package bench_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func init() { kit.Roles["bench-contend"] = benchContend }

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
		answer(children[i], "ready")
	}
	floor, lock := &bare{client: kit.NewClient(b, srv)}, newBareLock("floor")
	totals := make([]float64, len(children))
	var longest time.Duration
	m := inTurns(benchRounds,
		func() float64 { return nsPerOp(200, func() { floor.pair(&lock) }) },
		func() float64 {
			for _, c := range children {
				_ = c.Send(span.String())
			}
			sum := 0.0
			for i, c := range children {
				text := answer(c, "done ")
				var n float64
				var wait time.Duration
				_, err := fmt.Sscan(text, &n, (*int64)(&wait))
				kit.ChildCheck(err)
				totals[i] += n
				sum += n
				longest = max(longest, wait)
			}
			return float64(span) / sum
		},
	)
	name := fmt.Sprintf("%d processes × %d goroutines on one name", len(children), goroutines)
	t.add(name, m[1], m[0], 0.25, 4)
	most, least := slices.Max(totals), slices.Min(totals)
	t.rows = append(t.rows, row{
		name:   "  its busiest process by its least busy",
		figure: fmt.Sprintf("%.0f", most), floor: fmt.Sprintf("%.0f", least),
		ratio: most / least, target: 1.5, decimals: 3,
	}, row{
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
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		span, err := time.ParseDuration(in.Text())
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
	}
}
