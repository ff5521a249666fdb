package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// observer measures what an observer costs that does nothing. The floor is the same call without
// one, which only looks whether there is one: so that costs less than the difference.
func (t *table) observer(b *testing.B, srv *redistest.Server) {
	bare, observed := benchSession(b, srv), benchSession(b, srv, relock.WithObserver(relock.NopObserver{}))
	alone := func(s *relock.Session, name string) func() {
		m := s.Mutex(name)
		return func() { lockUnlock(kit.Background, m) }
	}
	crowd := func(f func()) func() float64 {
		return func() float64 {
			return 1 / throughput(20*time.Millisecond, benchGoroutines, func(int) { f() })
		}
	}
	pair := func(f func()) func() float64 { return func() float64 { return nsPerOp(100, f) } }
	without, with := alone(bare, "without"), alone(observed, "with")
	m := inTurns(2*benchRounds+1, pair(without), pair(with), crowd(without), crowd(with))
	t.add("uncontended Lock+Unlock with an observer", m[1], m[0], 1.02, 3)
	t.add(fmt.Sprintf("%d goroutines on one name with one", benchGoroutines), m[3], m[2], 1.5, 3)
	allocs := func(f func()) float64 { return testing.AllocsPerRun(2000, f) }
	none, some := allocs(without), allocs(with)
	t.rows = append(t.rows, row{
		name: "  allocations of a pair with one", figure: fmt.Sprint(some), floor: fmt.Sprint(none), ratio: some - none, target: 4,
	})
}
