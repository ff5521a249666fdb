package bench_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func init() { kit.Roles["bench-names"] = benchNames }

var namesOnce = flag.Int("names", 100_000, "names that are locked once; a tenth as many are fought over by two processes")

const (
	namesGoroutines = 64
	namesHeap       = 1 << 20 // bytes left of all names together, at most
)

// namesPart is a range of names that one process locks, each once.
type namesPart struct {
	prefix   string
	from, to int
	section  time.Duration
}

// namesOutcome is what a process says of its part.
type namesOutcome struct{ waited, heap, goroutines int64 }

// manyNames measures what is left of names that are locked once and never again, in the
// process and on the server: nothing but the keys of the fencing tokens, which expire. The
// figures before are those after a few thousand names.
func (t *table) manyNames(b *testing.B, _ *redistest.Server) {
	srv := redistest.Start(b)                                                                   // which has nothing else
	client := kit.NewClient(b, srv, func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 }) // one connection
	alone := []*redistest.Proc{redistest.Child(b, "bench-names", srv.Addr())}
	n := least(5000, *namesOnce)
	t.namesRows(fmt.Sprintf("%d names once each", n), srv, client, alone, n, 0)
	alone[0].Kill()

	two := []*redistest.Proc{redistest.Child(b, "bench-names", srv.Addr()), redistest.Child(b, "bench-names", srv.Addr())}
	n /= 10
	t.namesRows(fmt.Sprintf("%d names fought over by two processes", n), srv, client, two, n, 10*time.Millisecond)
}

func (t *table) namesRows(title string, srv *redistest.Server, client rueidis.Client, procs []*redistest.Proc, names int, section time.Duration) {
	for _, p := range procs {
		answer(p, "ready")
	}
	run := func(part namesPart) (all namesOutcome) {
		for _, p := range procs {
			_ = p.Send(fmt.Sprintf("%s %d %d %d", part.prefix, part.from, part.to, part.section))
		}
		for _, p := range procs {
			text := answer(p, "done ")
			var o namesOutcome
			_, err := fmt.Sscan(text, &o.waited, &o.heap, &o.goroutines)
			kit.ChildCheck(err)
			all.waited += o.waited
			all.heap += o.heap
			all.goroutines += o.goroutines
		}
		return all
	}
	prefix := strings.ReplaceAll(title, " ", "-")
	before := run(namesPart{prefix, 0, 4 * namesGoroutines * len(procs), section})
	serverBefore := serverLeft(srv, client)
	start := time.Now()
	after := run(namesPart{prefix, names, 2 * names, section})
	took := time.Since(start)
	server := serverLeft(srv, client)

	left := func(name string, n int64, target float64) {
		t.rows = append(t.rows, row{name: "  " + name, figure: fmt.Sprint(n), floor: "-", ratio: float64(n), target: target})
	}
	t.rows = append(t.rows, row{name: title, figure: fmt.Sprintf("%.0f/s", float64(names)/took.Seconds()), floor: "-"})
	if section > 0 {
		t.rows = append(t.rows, row{
			name: "  waited for", figure: fmt.Sprint(after.waited), floor: fmt.Sprint(names),
			ratio: float64(after.waited) / float64(names), target: 0.25, atLeast: true, decimals: 2,
		})
	}
	left("subscriptions left", server.channels-serverBefore.channels, 0)
	left("connections left", server.clients-serverBefore.clients, 0)
	left("connections made", server.connections-serverBefore.connections, 0)
	left("goroutines left", after.goroutines-before.goroutines, 0)
	left("bytes of heap left", after.heap-before.heap, namesHeap)
	left("keys left that are no fencing tokens", server.keys, 0)
	left("fencing tokens that do not expire within a minute", server.lasting, 0)
}

// left is what a server has.
type left struct{ channels, clients, connections, keys, lasting int64 }

// serverLeft looks at a server.
func serverLeft(srv *redistest.Server, client rueidis.Client) (l left) {
	list, err := client.Do(kit.Background, client.B().ClientList().Build()).ToString()
	kit.ChildCheck(err)
	l.clients = int64(strings.Count(list, "\n"))
	info, err := client.Do(kit.Background, client.B().Info().Section("stats").Build()).ToString()
	kit.ChildCheck(err)
	_, rest, _ := strings.Cut(info, "total_connections_received:")
	_, err = fmt.Sscan(rest, &l.connections)
	kit.ChildCheck(err)
	channels, err := client.Do(kit.Background, client.B().PubsubChannels().Build()).AsStrSlice()
	kit.ChildCheck(err)
	l.channels = int64(len(channels))
	l.keys, l.lasting = keysLeft(client)
	return l
}

// keysLeft counts keys that belong neither to sessions nor to fencing tokens, and fencing
// tokens that are there for longer than a minute.
func keysLeft(client rueidis.Client) (others, lasting int64) {
	for cursor := uint64(0); ; {
		page, err := client.Do(kit.Background, client.B().Scan().Cursor(cursor).Count(1000).Build()).AsScanEntry()
		kit.ChildCheck(err)
		ttls := make(rueidis.Commands, 0, len(page.Elements))
		for _, key := range page.Elements {
			switch {
			case strings.HasPrefix(key, "relock_session:"): // one of each session
			case strings.HasPrefix(key, "relock_fence:"):
				ttls = append(ttls, client.B().Pttl().Key(key).Build())
			default:
				others++
			}
		}
		for _, r := range client.DoMulti(kit.Background, ttls...) {
			ms, err := r.AsInt64()
			kit.ChildCheck(err)
			if ms == -1 || ms > time.Minute.Milliseconds() {
				lasting++
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return others, lasting
		}
	}
}

// benchNames locks the names of each line of input once each, and says what it has then.
func benchNames(args []string) { // address
	s, client := kit.ChildSession(args[0])
	defer client.Close()
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var part namesPart
		_, err := fmt.Sscan(in.Text(), &part.prefix, &part.from, &part.to, (*int64)(&part.section))
		kit.ChildCheck(err)
		var waited atomic.Int64
		var wg sync.WaitGroup
		for g := range namesGoroutines {
			wg.Go(func() { waited.Add(chain(s, &part, g)) })
		}
		wg.Wait()
		fmt.Println("done", waited.Load(), heapInUse(), runtime.NumGoroutine())
	}
}

// chain locks every so many names, each before it unlocks the one before. So another
// process that does the same stays behind, and waits for each. Whoever does not wait keeps
// a name for as long as the section says. It returns how often it waited.
func chain(s *relock.Session, part *namesPart, first int) (waited int64) {
	var held *relock.Mutex
	for i := part.from + first; i < part.to; i += namesGoroutines {
		next := s.Mutex(fmt.Sprintf("%s-%d", part.prefix, i))
		start := time.Now()
		kit.ChildCheck(next.Lock(kit.Background))
		waits := time.Since(start) > part.section/2
		if held != nil {
			kit.ChildCheck(held.Unlock(kit.Background))
		}
		held = next
		switch {
		case part.section == 0:
		case waits:
			waited++
		default:
			time.Sleep(part.section)
		}
	}
	if held != nil {
		kit.ChildCheck(held.Unlock(kit.Background))
	}
	return waited
}
