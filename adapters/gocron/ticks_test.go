package relockgocron_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	relockgocron "github.com/relock-go/relock/adapters/gocron"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	period   = time.Second
	skew     = 300 * time.Millisecond // by which a clock is ahead or behind
	minHold  = 800 * time.Millisecond
	punctual = 100 * time.Millisecond // how late a try may be: below minHold - 2*skew, and below period - minHold
)

// record notes a tick, unless somebody with a later token has noted one.
const record = `
if tonumber(redis.call('GET', KEYS[2]) or 0) > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return redis.call('RPUSH', KEYS[1], ARGV[1])`

// ticks is a process with a scheduler whose clock differs by args[1]. It prints "ran" at each of its runs.
func ticks(args []string) {
	by, err := time.ParseDuration(args[1])
	kit.ChildCheck(err)
	clock := skewed{clockwork.NewRealClock(), by}
	tick := func() int64 { return clock.Now().Round(period).Unix() }

	session, client := kit.ChildSession(args[0], relock.WithPrefix("lock:"))
	do := func(c rueidis.Completed) { kit.ChildCheck(client.Do(context.Background(), c).Error()) }
	locker := relockgocron.NewLocker(session, relock.WithMinHold(minHold), relock.WithLease(period))
	s, err := gocron.NewScheduler(gocron.WithClock(clock), gocron.WithDistributedLocker(
		lockerFunc(func(ctx context.Context, key string) (gocron.Lock, error) {
			l, err := locker.Lock(ctx, key)
			if err != nil && !errors.Is(err, relock.ErrTaken) {
				fmt.Fprintln(os.Stderr, err)
			}
			if late := clock.Now().Sub(clock.Now().Round(period)).Abs(); late > punctual {
				fmt.Fprintf(os.Stderr, "tick %d late by %v\n", tick(), late)
				do(client.B().Sadd().Key("late").Member(strconv.FormatInt(tick(), 10)).Build())
			}
			return l, err
		})))
	kit.ChildCheck(err)
	kit.ChildCheck(every(s, clock, period, "job", func(ctx context.Context) {
		ctx = relockgocron.Context(ctx)
		do(client.B().Eval().Script(record).Numkeys(2).Key("ticks", "token").
			Arg(fmt.Sprint(tick(), " ", args[2]), strconv.FormatInt(relock.Token(ctx), 10)).Build())
		fmt.Println("ran")
		time.Sleep(10 * time.Millisecond)
	}))
	fmt.Println("ready")
	select {}
}

// Three processes have a job of 10 ms that is due every second, and clocks that differ by up to 600 ms. The one
// that is ahead, and so runs every tick, is frozen in a run, and the next one killed in a run. The last one goes
// on, also when the first wakes up. Each tick runs once.
//
// A tick for which the machine was late at some try is left out: to be late is to have another clock.
func TestEachTickRunsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	start := func(by time.Duration, name string) *redistest.Proc {
		p := redistest.Child(t, "ticks", server.Addr(), by.String(), name)
		_, err := p.Expect("ready", kit.Soon)
		require.NoError(t, err)
		return p
	}
	ahead, right, behind := start(skew, "ahead"), start(0, "right"), start(-skew, "behind")
	ran := func(p *redistest.Proc, times int) {
		for range times {
			_, err := p.Expect("ran", kit.Soon)
			require.NoError(t, err)
		}
	}
	ran(ahead, 3)
	require.NoError(t, ahead.Freeze())
	ran(right, 2)
	right.Kill()
	ran(behind, 2)
	require.NoError(t, ahead.Thaw())
	ran(behind, 2) // it runs a tick so late that the lock is still taken when the others try the next one

	list := func(args ...string) (out []string) {
		reply, err := server.Do(args...)
		require.NoError(t, err)
		for _, v := range reply.([]any) {
			out = append(out, v.(string))
		}
		return out
	}
	runs := list("LRANGE", "ticks", "0", "-1")
	late := map[int64]bool{}
	for _, s := range list("SMEMBERS", "late") {
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		late[n] = true
	}
	t.Logf("%d runs, %d ticks late", len(runs), len(late))
	checked, last := 0, int64(0)
	for _, s := range runs {
		first, _, _ := strings.Cut(s, " ")
		n, err := strconv.ParseInt(first, 10, 64)
		require.NoError(t, err)
		if last != 0 && !late[n] && !late[last] {
			require.Equal(t, last+1, n, "ticks %q, late %v", runs, late)
			checked++
		}
		last = n
	}
	require.GreaterOrEqual(t, checked, 3, "the machine was late for nearly all ticks: %q, late %v", runs, late)
}
