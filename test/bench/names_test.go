package bench_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func init() { kit.Roles["bench-names"] = benchNames }

var namesOnce = flag.Int("names", 100_000, "names that are locked once")

const (
	namesGoroutines = 64
	namesHeap       = 1 << 20 // bytes left of all names together, at most
)

// manyNames measures what is left of names that are locked once and never again, in the
// process and on the server: nothing but the keys of the fencing tokens, which expire. The
// figures before are those after a few names.
func (t *table) manyNames(b *testing.B, _ *redistest.Server) {
	srv := redistest.Start(b)                                                                   // which has nothing else
	client := kit.NewClient(b, srv, func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 }) // one connection
	p := redistest.Child(b, "bench-names", srv.Addr())
	answer(p, "ready")
	run := func(from, to int) (heap, goroutines int64) {
		kit.ChildCheck(p.Send(fmt.Sprint(from, to)))
		_, err := fmt.Sscan(answer(p, "done "), &heap, &goroutines)
		kit.ChildCheck(err)
		return heap, goroutines
	}
	names := least(5000, *namesOnce)
	heapBefore, goroutinesBefore := run(0, 4*namesGoroutines)
	serverBefore := serverLeft(srv, client)
	start := time.Now()
	heap, goroutines := run(names, 2*names)
	took := time.Since(start)
	server := serverLeft(srv, client)

	t.rows = append(t.rows, row{
		name: fmt.Sprintf("%d names once each", names), figure: fmt.Sprintf("%.0f/s", float64(names)/took.Seconds()), floor: "-",
	})
	t.counts("  subscriptions left", float64(server.channels-serverBefore.channels), 0)
	t.counts("  connections left", float64(server.clients-serverBefore.clients), 0)
	t.counts("  connections made", float64(server.connections-serverBefore.connections), 0)
	t.counts("  goroutines left", float64(goroutines-goroutinesBefore), 0)
	t.counts("  bytes of heap left", float64(heap-heapBefore), namesHeap)
	t.counts("  keys left that are no fencing tokens", float64(server.keys), 0)
	t.counts("  fencing tokens that do not expire within a minute", float64(server.lasting), 0)
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
		fmt.Println("done", heapInUse(), runtime.NumGoroutine())
	})
}
