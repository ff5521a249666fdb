package bench_test

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func init() {
	kit.Roles["bench-fair"] = benchFair
	kit.Roles["bench-grants"] = benchGrants
}

// fairHandOff measures the time from the call of Unlock in one process to the return of
// Lock in another that is first in the queue. The floor is the same without relock: from
// before the release is sent to the arrival of the grant that it publishes.
func (t *table) fairHandOff(b *testing.B, srv *redistest.Server) {
	const each = 20
	client := kit.NewClient(b, srv)
	bareClient := kit.NewClient(b, srv)
	m := benchSession(b, srv).FairMutex("fair")
	ours := redistest.Child(b, "bench-fair", srv.Addr(), "fair")
	bares := redistest.Child(b, "bench-grants", srv.Addr(), bareWaiter)
	_, err := bares.Expect("subscribed", kit.Soon)
	benchCheck(err == nil, "%v", err)

	err = bareClient.Do(kit.Background, bareClient.B().ScriptLoad().Script(kit.LeaveText).Build()).Error()
	benchCheck(err == nil, "SCRIPT LOAD: %v", err)

	command := func(args ...string) int64 {
		n, err := bareClient.Do(kit.Background, bareClient.B().Arbitrary(args...).Build()).AsInt64()
		benchCheck(err == nil, "%s: %v", args[0], err)
		return n
	}
	handOff := func(child *redistest.Proc, before func(), release func()) float64 {
		waits := make([]float64, each)
		for i := range waits {
			before()
			time.Sleep(2 * time.Millisecond)
			start := monotonic()
			release()
			text, err := child.Expect("woken ", kit.Soon)
			benchCheck(err == nil, "%v", err)
			end, err := strconv.ParseInt(text, 10, 64)
			benchCheck(err == nil, "%v", err)
			waits[i] = float64(end - start)
		}
		return median(waits)
	}
	r := inTurns(benchRounds,
		func() float64 {
			return handOff(bares, func() {
				command("DEL", "bare", "relock_queue:{bare}")
				command("HSET", "bare", bareSession+"1", "1")
				command("ZADD", "relock_queue:{bare}", "1", bareWaiter+":1")
			}, func() {
				told := command("EVALSHA", kit.LeaveSHA, "3", "bare", "relock_fence:{bare}", "relock_queue:{bare}",
					bareSession+"1", "redisson_lock__channel:{bare}", "PUBLISH", "5000", "relock_grant:{bare}:", "1")
				benchCheck(told == 0, "nobody was told of a grant")
			})
		},
		func() float64 {
			return handOff(ours, func() {
				err := m.Lock(kit.Background)
				benchCheck(err == nil, "%v", err)
				_ = ours.Send("wait")
				for {
					n, err := client.Do(kit.Background, client.B().Zcard().Key("relock_queue:{fair}").Build()).AsInt64()
					benchCheck(err == nil, "%v", err)
					if n == 1 {
						return
					}
				}
			}, func() {
				err := m.Unlock(kit.Background)
				benchCheck(err == nil, "%v", err)
			})
		},
	)
	t.add("FairMutex hand-off across processes, p50", r[1], r[0], 1.3, 3)
}

// bareWaiter is the session of the process that receives grants without relock.
const bareWaiter = "b7a4e5c0-0123-4123-8123-0123456789ab"

// benchFair waits for the lock, once for each line of input.
func benchFair(args []string) {
	s, client := kit.ChildSession(args[0])
	defer client.Close()
	m := s.FairMutex(args[1])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		kit.ChildCheck(m.Lock(kit.Background))
		end := monotonic()
		kit.ChildCheck(m.Unlock(kit.Background))
		fmt.Println("woken", end)
	}
}

// benchGrants tells when the grants of a lock arrive.
func benchGrants(args []string) {
	client, err := kit.Connect(args[0])
	kit.ChildCheck(err)
	listener, put := client.Dedicate()
	defer put()
	listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {
		fmt.Println("woken", monotonic())
	}})
	kit.ChildCheck(listener.Do(kit.Background, listener.B().Subscribe().Channel("relock_grant:{bare}:"+args[1]).Build()).Error())
	fmt.Println("subscribed")
	select {}
}
