package bench_test

import (
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// manyWaiters measures what a hand-over of a FairMutex takes with ten goroutines in its
// queue and with a thousand, of several sessions.
func (t *table) manyWaiters(b *testing.B, srv *redistest.Server) {
	const few, many = 10, 1000
	sessions := make([]*relock.Session, 5)
	for i := range sessions {
		sessions[i] = benchSession(b, srv)
	}
	var runs int
	cpus := make(map[int][]float64)
	measure := func(waiters int) func() float64 {
		return func() float64 {
			runs++
			each, cpu := handOvers(srv, sessions, fmt.Sprintf("waiters-%d", runs), waiters)
			cpus[waiters] = append(cpus[waiters], cpu)
			return each
		}
	}
	m := inTurns(5, measure(few), measure(many))
	beside := fmt.Sprintf(" (%d waiters)", few)
	t.grows(fmt.Sprintf("%d waiters on one FairMutex, a hand-over", many), m[1], m[0], beside, took, herdGrowth, 3)
	t.grows("  its server time", median(cpus[many]), median(cpus[few]), beside, took, herdGrowth, 3)
}

// handOvers has so many goroutines in a queue that each joins again at its end, and
// returns what a hand-over takes, and what it takes the server, in nanoseconds.
func handOvers(srv *redistest.Server, sessions []*relock.Session, name string, waiters int) (each, cpu float64) {
	warmUp, span := 500*time.Millisecond, least(100*time.Millisecond, 1200*time.Millisecond)
	var count atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range waiters {
		m := sessions[i%len(sessions)].FairMutex(name)
		wg.Go(func() {
			for !stop.Load() {
				lockUnlock(kit.Background, m)
				count.Add(1)
			}
		})
	}
	time.Sleep(warmUp)
	cpuBefore, _ := serverLoad(srv)
	before, start := count.Load(), time.Now()
	time.Sleep(span)
	cpuAfter, _ := serverLoad(srv)
	n, passed := float64(count.Load()-before), float64(time.Since(start))
	stop.Store(true)
	wg.Wait()
	benchCheck(n > 0, "no hand-over among %d waiters", waiters)
	return passed / n, (cpuAfter - cpuBefore) / n
}

// manyHolds measures what it takes to hold many locks, and to keep as many that nobody uses: goroutines, heap, the
// scripts that renew them, processor time, and Close.
func (t *table) manyHolds(b *testing.B, srv *redistest.Server) {
	held, kept := holdMany(b, srv), holdMany(b, srv, keepOption)
	goroutines := held.goroutines - held.more
	t.rows = append(t.rows,
		row{name: fmt.Sprintf("%d held locks: goroutines", holds), figure: fmt.Sprint(held.goroutines), floor: fmt.Sprint(goroutines), ratio: float64(held.more)},
		row{name: "  heap of each, bytes", figure: fmt.Sprintf("%.0f", held.heap), floor: "-", ratio: held.heap, target: 1024},
		row{name: "  scripts for each 100 and period", figure: fmt.Sprintf("%.0f", held.scripts), floor: fmt.Sprint(holds / 100), ratio: held.scripts / (holds / 100), target: 1.05, decimals: 2},
	)
	const beside = " held"
	plain := func(n float64) string { return fmt.Sprintf("%.0f", n) }
	t.grows(fmt.Sprintf("%d kept locks: heap of each, bytes", holds), kept.heap, held.heap, beside, plain, 1.05, 2)
	t.grows("  scripts of a period", kept.scripts, held.scripts, beside, plain, 1.05, 2)
	t.grows("  server time of a period", kept.server, held.server, beside, took, 1.1, 2)
	t.grows("  client's time of a period", kept.client, held.client, beside, took, 1.1, 2)
	t.grows("  Close", kept.closing, held.closing, beside, took, 1.25, 2)
}

const holds = 10_000

// heldMany is what many locks take: each, all in a period of renewals, and at the end.
type heldMany struct {
	heap                    float64 // of each
	scripts, server, client float64 // of a period; processor time
	closing                 float64
	goroutines, more        int
}

// holdMany locks many names; with WithKeep it unlocks them.
func holdMany(b *testing.B, srv *redistest.Server, opts ...relock.LockOption) (of heldMany) {
	lease := least(3*time.Second, 6*time.Second)
	s, err := relock.NewSession(kit.Background, kit.NewClient(b, srv), relock.WithLease(lease))
	kit.ChildCheck(err)
	lockUnlock(kit.Background, s.Mutex("first"))

	goroutines, heap := runtime.NumGoroutine(), kit.HeapInUse()
	mutexes := make([]*relock.Mutex, holds)
	for i := range mutexes {
		mutexes[i] = s.Mutex("held-"+strconv.Itoa(i), opts...)
		kit.ChildCheck(mutexes[i].Lock(kit.Background))
		if opts != nil {
			kit.ChildCheck(mutexes[i].Unlock(kit.Background))
		}
	}
	of.heap = float64(kit.HeapInUse()-heap) / holds

	const periods = 3
	time.Sleep(lease / 3) // the first period is that of the acquisitions
	scripts, client := srv.CommandStats()["evalsha"], cpuTime()
	server, _ := serverLoad(srv)
	time.Sleep(periods * (lease / 3))
	of.client = (cpuTime() - client) / periods
	serverAfter, _ := serverLoad(srv)
	of.server = (serverAfter - server) / periods
	of.scripts = float64(srv.CommandStats()["evalsha"]-scripts) / periods
	of.goroutines = runtime.NumGoroutine()
	of.more = of.goroutines - goroutines
	for _, m := range mutexes {
		benchCheck(opts != nil || m.Err() == nil, "a hold was lost: %v", m.Err())
	}
	of.closing = nsPerOp(1, func() { kit.ChildCheck(s.Close(kit.Background)) })
	return of
}

// cpuTime returns the processor time of this process in nanoseconds.
func cpuTime() float64 {
	var r syscall.Rusage
	kit.ChildCheck(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return float64(r.Utime.Nano() + r.Stime.Nano())
}

var namesOnce = flag.Int("names", 100_000, "names that are locked once")

const namesGoroutines = 64

// manyNames measures what is left of names that are locked once and never again, in the
// process and on the server: nothing but the keys of the fencing tokens, which expire. The
// figures before are those after a few names.
func (t *table) manyNames(b *testing.B, _ *redistest.Server) {
	srv := redistest.Start(b)                                                                   // which has nothing else
	client := kit.NewClient(b, srv, func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 }) // one connection
	p := redistest.Child(b, "bench-names", srv.Addr())
	expect(p, "ready")
	run := func(from, to int) (heap, goroutines int64) {
		kit.ChildCheck(p.Send(fmt.Sprint(from, to)))
		expect(p, "done ", &heap, &goroutines)
		return heap, goroutines
	}
	names := least(5000, *namesOnce)
	heapBefore, goroutinesBefore := run(0, 4*namesGoroutines)
	serverBefore := serverLeft(client)
	start := time.Now()
	heap, goroutines := run(names, 2*names)
	took := time.Since(start)
	server := serverLeft(client)

	t.rows = append(t.rows, row{
		name: fmt.Sprintf("%d names once each", names), figure: fmt.Sprintf("%.0f/s", float64(names)/took.Seconds()), floor: "-",
	})
	t.counts("  subscriptions left", float64(server.channels-serverBefore.channels), 0)
	t.counts("  connections left", float64(server.clients-serverBefore.clients), 0)
	t.counts("  connections made", float64(server.connections-serverBefore.connections), 0)
	t.counts("  goroutines left", float64(goroutines-goroutinesBefore), 0)
	t.counts("  bytes of heap left", float64(heap-heapBefore), 1<<20) // of all names together
	t.counts("  keys left that are no fencing tokens", float64(server.keys), 0)
	t.counts("  fencing tokens that do not expire within a minute", float64(server.lasting), 0)
}

// left is what a server has: keys that belong neither to sessions nor to fencing tokens, and fencing tokens
// that are there for longer than a minute.
type left struct{ channels, clients, connections, keys, lasting int64 }

const keysLeft = `
local others, lasting = 0, 0
for _, key in ipairs(redis.call('keys', '*')) do
  if key:find('^relock_fence:') then
    local ttl = redis.call('pttl', key)
    if ttl == -1 or ttl > 60000 then lasting = lasting + 1 end
  elseif not key:find('^relock_session:') then
    others = others + 1
  end
end
return {others, lasting}`

// serverLeft looks at a server.
func serverLeft(client rueidis.Client) left {
	info, err := client.Do(kit.Background, client.B().Info().Build()).ToString()
	kit.ChildCheck(err)
	field := func(name string) (n int64) {
		_, rest, _ := strings.Cut(info, "\n"+name+":")
		_, err := fmt.Sscan(rest, &n)
		kit.ChildCheck(err)
		return n
	}
	keys, err := client.Do(kit.Background, client.B().Eval().Script(keysLeft).Numkeys(0).Build()).AsIntSlice()
	kit.ChildCheck(err)
	made := field("total_connections_received")
	return left{field("pubsub_channels"), field("connected_clients"), made, keys[0], keys[1]}
}

// benchNames locks the names of each line of input once each, and says what it has then.
func benchNames(args []string) { // address
	s, client := kit.ChildSession(args[0])
	defer client.Close()
	fmt.Println("ready")
	eachLine(func(line string) {
		var from, to int
		_, err := fmt.Sscan(line, &from, &to)
		kit.ChildCheck(err)
		kit.ChildCheck(kit.Together(namesGoroutines, func(g int) error {
			for i := from + g; i < to; i += namesGoroutines {
				lockUnlock(kit.Background, s.Mutex(fmt.Sprint("name-", i)))
			}
			return nil
		}))
		fmt.Println("done", kit.HeapInUse(), runtime.NumGoroutine())
	})
}
