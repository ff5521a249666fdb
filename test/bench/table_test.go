package bench_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// BenchmarkTable measures what relock promises to be fast at, and prints one table:
// each figure beside its floor, which is what the bare calls take without relock.
//
// Figure and floor are measured in turns, several rounds of each, and the ratio is
// that of their medians: so a machine that is busy with something else disturbs both
// alike. Run it alone, once:
//
//	go test -run '^$' -bench '^BenchmarkTable$' -benchtime 1x ./test/bench
//
// With -args -quick it only shows that everything runs.
func BenchmarkTable(b *testing.B) {
	srv := redistest.Start(b)
	benchCheck(loadScripts(kit.NewClient(b, srv)) == nil, "SCRIPT LOAD failed")
	var t table
	for _, part := range []struct {
		name    string
		measure func(*testing.B, *redistest.Server)
	}{
		{"pairs", t.pairs},
		{"keep", t.keep},
		{"observer", t.observer},
		{"names", t.names},
		{"contention", t.contention},
		{"handover", t.handOver},
		{"far", t.farHandOver},
		{"holds", t.manyHolds},
		{"rw", t.readWrite},
		{"groups", t.groups},
		{"semaphore", t.semaphore},
		{"redlock", t.redlock},
		{"guarded", t.guarded},
		{"server", t.server},
		{"herd", t.herd},
		{"waiters", t.manyWaiters},
		{"never", t.manyNames},
	} {
		b.Run(part.name, func(b *testing.B) {
			part.measure(b, srv)
			b.ReportMetric(0, "ns/op") // says nothing here
		})
	}
	t.print()
}

// table collects the rows of BenchmarkTable.
type table struct{ rows []row }

// format formats a figure.
type format func(float64) string

// row is one figure.
type row struct {
	name          string
	figure, floor string
	ratio         float64 // of figure and floor, or the figure itself
	target        float64
	atLeast       bool // the ratio must not be below the target; else not above
	decimals      int
}

func (r *row) met() bool {
	if r.atLeast {
		return r.ratio >= r.target
	}
	return r.ratio <= r.target
}

func (t *table) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\ncase\tmeasured\tfloor\tratio\ttarget\t")
	for _, r := range t.rows {
		sign, verdict := "≤", "ok"
		if r.atLeast {
			sign = "≥"
		}
		if !r.met() {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.*f\t%s %g\t%s\n", r.name, r.figure, r.floor, r.decimals, r.ratio, sign, r.target, verdict)
	}
	w.Flush()
}

var quick = flag.Bool("quick", false, "one short round of everything, to see that it works; not to measure")

// least returns what is measured, or less of it with -quick.
func least[T any](quickly, measured T) T {
	if *quick {
		return quickly
	}
	return measured
}

// add adds a row of which figure and floor are nanoseconds.
func (t *table) add(name string, figure, floor, target float64, decimals int) {
	t.grows(name, figure, floor, "", took, target, decimals)
}

// grows adds a row whose figure must not be more than so many times its floor. beside says what the floor is.
func (t *table) grows(name string, figure, floor float64, beside string, f format, target float64, decimals int) {
	t.rows = append(t.rows, row{
		name: name, figure: f(figure), floor: f(floor) + beside, ratio: figure / floor, target: target, decimals: decimals,
	})
}

// reaches adds a row whose figure must be at least so many times its floor.
func (t *table) reaches(name string, figure, floor float64, beside string, f format, target float64, decimals int) {
	t.grows(name, figure, floor, beside, f, target, decimals)
	t.rows[len(t.rows)-1].atLeast = true
}

// counts adds a row of which the figure itself is bounded.
func (t *table) counts(name string, n, target float64) {
	t.rows = append(t.rows, row{name: name, figure: fmt.Sprintf("%.0f", n), floor: "-", ratio: n, target: target})
}

// inTurns calls every f in each of the rounds, and returns the median of what each
// of them returned.
func inTurns(rounds int, fs ...func() float64) []float64 {
	all := make([][]float64, len(fs))
	for range least(1, rounds) {
		for i, f := range fs {
			all[i] = append(all[i], f())
		}
	}
	medians := make([]float64, len(fs))
	for i, of := range all {
		medians[i] = median(of)
	}
	return medians
}

func median(of []float64) float64 {
	slices.Sort(of)
	n := len(of)
	return (of[(n-1)/2] + of[n/2]) / 2
}

// nsPerOp measures n calls of f.
func nsPerOp(n int, f func()) float64 {
	start := time.Now()
	for range n {
		f()
	}
	return float64(time.Since(start)) / float64(n)
}

// pairs returns what measures n times Lock and Unlock.
func pairs(n int, ctx context.Context, l relock.Locker) func() float64 {
	return func() float64 { return nsPerOp(n, func() { lockUnlock(ctx, l) }) }
}

// perSecond formats how often something happens in a nanosecond.
func perSecond(perNS float64) string { return fmt.Sprintf("%.0f/s", perNS*1e9) }

// took formats nanoseconds.
func took(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e7:
		return fmt.Sprintf("%.4g µs", ns/1e3)
	default:
		return fmt.Sprintf("%.4g ms", ns/1e6)
	}
}

// eachLine calls f for each line of input of a helper process.
func eachLine(f func(line string)) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		f(in.Text())
	}
}

func TestMain(m *testing.M) { kit.Main(m) }

func init() {
	maps.Copy(kit.Roles, map[string]func([]string){
		"bench-successor": benchSuccessor, "bench-message": benchMessage, "bench-names": benchNames,
		"bench-contend": benchContend, "bench-write": benchWrite, "bench-herd": benchHerd,
	})
}

// bare sends the scripts that relock sends, with the same arguments, through
// rueidis alone. What it takes is the floor under relock's figures.
type bare struct {
	client rueidis.Client
	keyed  bool // name the keys to rueidis, which then spreads the commands over its wires
	seq    atomic.Uint64
}

// bareLock is a lock by its names on the wire.
type bareLock struct{ name, fence, queue, channel string }

func newBareLock(name string) bareLock {
	tag := "{" + name + "}"
	return bareLock{name, "relock_fence:" + tag, "relock_queue:" + tag, "redisson_lock__channel:" + tag}
}

// loadScripts makes them known to the server, so that no EVALSHA is in vain.
func loadScripts(client rueidis.Client) error {
	for _, text := range []string{kit.AcquireText, kit.ReleaseText} {
		if err := client.Do(kit.Background, client.B().ScriptLoad().Script(text).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

// bareSession is as long as the id of a session, and different in each process.
var bareSession = fmt.Sprintf("%08x-0123-4123-8123-0123456789ab:", os.Getpid())

func (c *bare) newID() string { return bareSession + strconv.FormatUint(c.seq.Add(1), 10) }

// acquire reports whether it was granted.
func (c *bare) acquire(ctx context.Context, l *bareLock, id string) (bool, error) {
	n, err := c.eval(ctx, kit.AcquireSHA, []string{l.name, l.fence, l.queue}, id, "30000", "", "", id, l.channel, "relock_session:", "numsub")
	return n > 0, err
}

// release reports whether it was held.
func (c *bare) release(ctx context.Context, l *bareLock, id string) (bool, error) {
	n, err := c.eval(ctx, kit.ReleaseSHA, []string{l.name, l.fence, l.queue}, id, id, "0", l.channel, "relock_session:", "numsub")
	return n >= 0, err
}

func (c *bare) eval(ctx context.Context, sha string, keys []string, args ...string) (int64, error) {
	b := c.client.B().Arbitrary("EVALSHA", sha, strconv.Itoa(len(keys)))
	if c.keyed {
		b = b.Keys(keys...)
	} else {
		b = b.Args(keys...)
	}
	r := c.client.Do(ctx, b.Args(args...).Build())
	if all, err := r.AsIntSlice(); err == nil {
		return all[0], nil
	}
	return r.AsInt64()
}

// pair acquires and releases a lock that nobody else wants.
func (c *bare) pair(l *bareLock) {
	id := c.newID()
	granted, err := c.acquire(kit.Background, l, id)
	benchCheck(err == nil && granted, "bare acquire of %s: %v, %v", l.name, granted, err)
	held, err := c.release(kit.Background, l, id)
	benchCheck(err == nil && held, "bare release of %s: %v, %v", l.name, held, err)
}

// pairFloor returns what measures the bare acquire and release by one goroutine.
func pairFloor(b *testing.B, srv *redistest.Server) func() float64 {
	floor, lock := &bare{client: kit.NewClient(b, srv)}, newBareLock("floor")
	return func() float64 { return nsPerOp(200, func() { floor.pair(&lock) }) }
}

// benchCheck ends the process when a benchmark does not do what it is there to
// measure. It may be called from any goroutine, and in helper processes.
func benchCheck(ok bool, format string, args ...any) {
	if !ok {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
		os.Exit(2)
	}
}

// lockUnlock is what the benchmarks repeat.
func lockUnlock(ctx context.Context, l relock.Locker) {
	kit.ChildCheck(l.Lock(ctx))
	kit.ChildCheck(l.Unlock(ctx))
}

// benchSession starts a session with a client of its own. NewSession's context has
// no end, and so is like that of the calls that are measured.
func benchSession(b testing.TB, at kit.Addressed, opts ...relock.SessionOption) *relock.Session {
	b.Helper()
	s, err := relock.NewSession(kit.Background, kit.NewClient(b, at), opts...)
	kit.ChildCheck(err)
	b.Cleanup(func() { _ = s.Close(kit.Background) }) // the server may be gone
	return s
}

// expect reads what follows a word in the next such line of a helper process.
func expect(p *redistest.Proc, word string, into ...any) {
	text, err := p.Expect(word, 10*time.Minute)
	kit.ChildCheck(err)
	_, err = fmt.Sscan(text, into...)
	kit.ChildCheck(err)
}
