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
	t.counts("  bytes of heap left", float64(heap-heapBefore), namesHeap)
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
	return left{field("pubsub_channels"), field("connected_clients"), field("total_connections_received"), keys[0], keys[1]}
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
