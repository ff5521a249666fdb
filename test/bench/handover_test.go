package bench_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// handOverKinds are a lock that is held, and one of the same name that waits for it.
var handOverKinds = []struct {
	title, name string
	held, next  locker
}{
	{"Mutex", "hand-mutex", mutexOf, mutexOf},
	{"FairMutex", "hand-fair", fairOf, fairOf},
	{"write after write", "hand-write", writeOf, writeOf},
	{"read after write", "hand-read", writeOf, readOf},
	{"Semaphore", "hand-semaphore", semaphoreOf, semaphoreOf},
}

// locker returns a session's lock of a name.
type locker func(s *relock.Session, name string) relock.Locker

func mutexOf(s *relock.Session, name string) relock.Locker { return s.Mutex(name) }
func fairOf(s *relock.Session, name string) relock.Locker  { return s.FairMutex(name) }
func writeOf(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) }
func readOf(s *relock.Session, name string) relock.Locker  { return s.RWMutex(name).RLocker() }

func semaphoreOf(s *relock.Session, name string) relock.Locker { return s.Semaphore(name, 1) }

// handOver measures the time from the call of Unlock in one process to the return of
// Lock in another that waits. The floor is the bare minimum: from before HDEL and PUBLISH
// are sent, in one pipeline, until the message is in the other process. The same two in a
// script are what any lock must take that looks who is next.
func (t *table) handOver(b *testing.B, srv *redistest.Server) {
	const rounds, each = 25, 10
	client := kit.NewClient(b, srv)
	s := benchSession(b, srv)
	successor := redistest.Child(b, "bench-successor", srv.Addr())
	bare := redistest.Child(b, "bench-message", srv.Addr(), "hand-over")
	expect(bare, "subscribed")

	script, err := client.Do(kit.Background, client.B().ScriptLoad().
		Script("redis.call('hdel', KEYS[1], ARGV[1]) return redis.call('publish', ARGV[2], '0')").Build()).ToString()
	kit.ChildCheck(err)
	hold := func() {
		kit.ChildCheck(client.Do(kit.Background, client.B().Hset().Key("hand-bare").FieldValue().FieldValue("holder", "1").Build()).Error())
	}
	var measured []func() float64
	for _, release := range []func(){
		func() {
			for _, r := range client.DoMulti(kit.Background,
				client.B().Hdel().Key("hand-bare").Field("holder").Build(),
				client.B().Publish().Channel("hand-over").Message("0").Build()) {
				n, err := r.AsInt64()
				benchCheck(n == 1 && err == nil, "HDEL or PUBLISH: %d, %v", n, err)
			}
		},
		func() {
			n, err := client.Do(kit.Background, client.B().Evalsha().Sha1(script).Numkeys(1).
				Key("hand-bare").Arg("holder", "hand-over").Build()).AsInt64()
			benchCheck(n == 1 && err == nil, "EVALSHA: %d, %v", n, err)
		},
	} {
		measured = append(measured, func() float64 { return handOverTime(each, bare, hold, release) })
	}
	for i, kind := range handOverKinds {
		held := kind.held(s, kind.name)
		measured = append(measured, func() float64 {
			return handOverTime(each, successor, func() {
				kit.ChildCheck(held.Lock(kit.Background))
				_ = successor.Send(strconv.Itoa(i))
				for !awaited(client, kind.name) {
					time.Sleep(time.Millisecond)
				}
			}, func() { kit.ChildCheck(held.Unlock(kit.Background)) })
		})
	}
	m := inTurns(rounds, measured...)
	const across = "hand-over across processes, p50: "
	t.add(across+"HDEL and PUBLISH as a script", m[1], m[0], 1.5, 3)
	for i, kind := range handOverKinds {
		t.add(across+kind.title, m[i+2], m[0], 1.5, 3)
	}
	t.grows("  of a permit, beside that of a Mutex", m[len(m)-1], m[2], " Mutex", took, 1.2, 3)
}

// awaited reports whether somebody is in the queue of a lock.
func awaited(client rueidis.Client, name string) bool {
	n, err := client.Do(kit.Background, client.B().Exists().
		Key("relock_queue:{"+name+"}", "relock_rwqueue:{"+name+"}", "relock_rdqueue:{"+name+"}").Build()).AsInt64()
	kit.ChildCheck(err)
	return n > 0
}

// handOverTime returns the median time from before release to the arrival that the child
// tells. A waiter has a few milliseconds to fall asleep.
func handOverTime(times int, child *redistest.Proc, before, release func()) float64 {
	waits := make([]float64, times)
	for i := range waits {
		before()
		time.Sleep(4 * time.Millisecond)
		start := kit.Monotonic()
		release()
		var end int64
		expect(child, "woken ", &end)
		waits[i] = float64(end - start)
	}
	return median(waits)
}

// benchSuccessor waits for the lock whose number each line of input says.
func benchSuccessor(args []string) { // address
	s, client := kit.ChildSession(args[0])
	defer client.Close()
	eachLine(func(line string) {
		kind, err := strconv.Atoi(line)
		kit.ChildCheck(err)
		next := handOverKinds[kind].next(s, handOverKinds[kind].name)
		kit.ChildCheck(next.Lock(kit.Background))
		end := kit.Monotonic()
		kit.ChildCheck(next.Unlock(kit.Background))
		fmt.Println("woken", end)
	})
}

// benchMessage says when messages arrive.
func benchMessage(args []string) { // address, channel
	client, err := kit.Connect(args[0])
	kit.ChildCheck(err)
	listener, put := client.Dedicate()
	defer put()
	listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {
		fmt.Println("woken", kit.Monotonic())
	}})
	kit.ChildCheck(listener.Do(kit.Background, listener.B().Subscribe().Channel(args[1]).Build()).Error())
	fmt.Println("subscribed")
	select {}
}

// farHandOver measures hand-overs between sessions whose Redis is far away, in round
// trips of a PING. All kinds are measured at the same time: nobody has much to do.
func (t *table) farHandOver(b *testing.B, srv *redistest.Server) {
	const roundTrip, each = 40 * time.Millisecond, 15
	proxy := redistest.NewProxy(b, srv.Addr())
	proxy.Delay(roundTrip / 2)
	from, to := benchSession(b, proxy), benchSession(b, proxy)
	client := kit.NewClient(b, proxy)
	waits := make([][]float64, len(handOverKinds)+1)
	ended := make(chan struct{})
	for i, kind := range handOverKinds {
		go func() {
			held, next := kind.held(from, kind.name), kind.next(to, kind.name)
			for range each {
				waits[i] = append(waits[i], farWait(held, next, 5*roundTrip))
			}
			ended <- struct{}{}
		}()
	}
	for range each {
		pings := &waits[len(handOverKinds)]
		*pings = append(*pings, nsPerOp(1, func() {
			kit.ChildCheck(client.Do(kit.Background, client.B().Ping().Build()).Error())
		}))
		time.Sleep(5 * roundTrip)
	}
	for range handOverKinds {
		<-ended
	}
	floor := median(waits[len(handOverKinds)])
	for i, kind := range handOverKinds {
		t.add(fmt.Sprintf("hand-over with %v round trip, p50: %s", roundTrip, kind.title), median(waits[i]), floor, 1.1, 3)
	}
}

// farWait returns how long it takes from the call of Unlock to the return of a Lock that
// was called so long before.
func farWait(held, next relock.Locker, before time.Duration) float64 {
	ctx := context.Background()
	kit.ChildCheck(held.Lock(ctx))
	locked := make(chan int64)
	go func() {
		err := next.Lock(ctx)
		at := kit.Monotonic()
		kit.ChildCheck(err)
		locked <- at
	}()
	time.Sleep(before)
	start := kit.Monotonic()
	kit.ChildCheck(held.Unlock(ctx))
	took := float64(<-locked - start)
	kit.ChildCheck(next.Unlock(ctx))
	return took
}
