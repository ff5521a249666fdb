package bench_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func init() {
	kit.Roles["bench-contend"] = benchContend
	kit.Roles["bench-wait"] = benchWait
	kit.Roles["bench-wait-bare"] = benchWaitBare
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
		children[i] = redistest.Child(b, "bench-contend", srv.Addr(), "contended", strconv.Itoa(goroutines))
		_, err := children[i].Expect("ready", kit.Soon)
		benchCheck(err == nil, "%v", err)
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
				text, err := c.Expect("done ", kit.Soon)
				benchCheck(err == nil, "%v", err)
				var n float64
				var wait time.Duration
				_, err = fmt.Sscan(text, &n, (*int64)(&wait))
				benchCheck(err == nil, "%v", err)
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
func benchContend(args []string) {
	s, client := kit.ChildSession(args[0])
	defer client.Close()
	m := s.Mutex(args[1])
	goroutines, err := strconv.Atoi(args[2])
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
			count.Add(1)
			kit.ChildCheck(m.Unlock(kit.Background))
		})
		fmt.Println("done", count.Load(), longest.Load())
	}
}

// wakeUp measures the time from the call of Unlock in one process to the return of
// Lock in another that waits for it. The floor is the same without relock: from
// before the release is sent, by way of the message, to the reply of the acquire.
func (t *table) wakeUp(b *testing.B, srv *redistest.Server) {
	const each = 20
	client := kit.NewClient(b, srv)
	free, name := &bare{client: kit.NewClient(b, srv)}, newBareLock("woken-bare")
	m := benchSession(b, srv).Mutex("woken")
	ours := redistest.Child(b, "bench-wait", srv.Addr(), "woken")
	bares := redistest.Child(b, "bench-wait-bare", srv.Addr(), "woken-bare")

	var id string
	bareLock := func() {
		id = free.newID()
		ok, err := free.acquire(kit.Background, &name, id)
		benchCheck(ok && err == nil, "bare acquire: %v", err)
	}
	bareUnlock := func() {
		ok, err := free.release(kit.Background, &name, id)
		benchCheck(ok && err == nil, "bare release: %v", err)
	}
	lock := func() { err := m.Lock(kit.Background); benchCheck(err == nil, "%v", err) }
	unlock := func() { err := m.Unlock(kit.Background); benchCheck(err == nil, "%v", err) }
	wake := func(child *redistest.Proc, channel string, lock, unlock func()) float64 {
		waits := make([]float64, each)
		for i := range waits {
			lock()
			_ = child.Send("wait")
			_, err := child.Expect("waiting", kit.Soon)
			benchCheck(err == nil, "%v", err)
			for numsub(client, channel) == 0 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(2 * time.Millisecond)
			start := monotonic()
			unlock()
			text, err := child.Expect("woken ", kit.Soon)
			benchCheck(err == nil, "%v", err)
			end, err := strconv.ParseInt(text, 10, 64)
			benchCheck(err == nil, "%v", err)
			waits[i] = float64(end - start)
		}
		return median(waits)
	}
	r := inTurns(benchRounds,
		func() float64 { return wake(bares, name.channel, bareLock, bareUnlock) },
		func() float64 { return wake(ours, newBareLock("woken").channel, lock, unlock) },
	)
	t.add("wake-up across processes, p50", r[1], r[0], 1.3, 3)
}

func numsub(client rueidis.Client, channel string) int64 {
	reply, err := client.Do(kit.Background, client.B().PubsubNumsub().Channel(channel).Build()).AsIntMap()
	benchCheck(err == nil, "PUBSUB NUMSUB: %v", err)
	return reply[channel]
}

// benchWait waits for the lock, once for each line of input.
func benchWait(args []string) {
	s, client := kit.ChildSession(args[0])
	defer client.Close()
	m := s.Mutex(args[1])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println("waiting")
		kit.ChildCheck(m.Lock(kit.Background))
		end := monotonic()
		kit.ChildCheck(m.Unlock(kit.Background))
		fmt.Println("woken", end)
	}
}

// benchWaitBare does the same without relock.
func benchWaitBare(args []string) {
	client, err := kit.Connect(args[0])
	kit.ChildCheck(err)
	c, lock := &bare{client: client}, newBareLock(args[1])
	listener, put := client.Dedicate()
	defer put()
	message := make(chan struct{}, 1)
	listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {
		select {
		case message <- struct{}{}:
		default:
		}
	}})
	kit.ChildCheck(listener.Do(kit.Background, listener.B().Subscribe().Channel(lock.channel).Build()).Error())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		select {
		case <-message: // of this process's own release
		default:
		}
		id := c.newID()
		granted, err := c.acquire(kit.Background, &lock, id)
		kit.ChildCheck(err)
		fmt.Println("waiting")
		for !granted {
			<-message
			granted, err = c.acquire(kit.Background, &lock, id)
			kit.ChildCheck(err)
		}
		end := monotonic()
		_, err = c.release(kit.Background, &lock, id)
		kit.ChildCheck(err)
		fmt.Println(strings.TrimSpace("woken "), end)
	}
}
