package relockgocron_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
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

// record notes the tick that is next to the present time, unless somebody with a later token has noted one.
const record = `
if tonumber(redis.call('GET', KEYS[2]) or 0) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
local now = redis.call('TIME')
return redis.call('RPUSH', KEYS[1], string.format('%d', math.floor(now[1] + now[2] / 1e6 + 0.5)))`

// ticks is a process with a scheduler whose clock differs by args[1]. It prints "ran" at each of its runs, and notes
// with its name, args[2], when it is late.
func ticks(args []string) {
	by, err := time.ParseDuration(args[1])
	kit.ChildCheck(err)
	clock := skewed{clockwork.NewRealClock(), by}
	session, client := kit.ChildSession(args[0], relock.WithPrefix("lock:"))
	do := func(c rueidis.Completed) { kit.ChildCheck(client.Do(context.Background(), c).Error()) }
	lateness := func() {
		if late := clock.Now().Sub(clock.Now().Round(period)).Abs(); late > punctual {
			do(client.B().Sadd().Key("late").Member(args[2]).Build())
		}
	}
	locker := relockgocron.NewLocker(session, relock.WithMinHold(minHold), relock.WithLease(period))
	s, err := gocron.NewScheduler(gocron.WithClock(clock), gocron.WithDistributedLocker(
		lockerFunc(func(ctx context.Context, key string) (gocron.Lock, error) {
			l, err := locker.Lock(ctx, key)
			if err != nil && !errors.Is(err, relock.ErrTaken) {
				fmt.Fprintln(os.Stderr, err)
			}
			lateness()
			return l, err
		})))
	kit.ChildCheck(err)
	kit.ChildCheck(every(s, clock, period, "job", func(ctx context.Context) {
		do(client.B().Eval().Script(record).Numkeys(2).Key("ticks", "token").
			Arg(strconv.FormatInt(relock.Token(relockgocron.Context(ctx)), 10)).Build())
		lateness() // also if it was by itself until here
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
// To be late is to have another clock. So all is done again if the machine was busy.
func TestEachTickRunsOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		if runs, busy := runTicks(t); busy {
			t.Logf("the machine was busy: runs %v", runs)
		} else {
			for i := range runs[1:] {
				require.Equal(t, runs[i]+1, runs[i+1], "runs %v", runs)
			}
			require.GreaterOrEqual(t, len(runs), 9)
			return
		}
	}
	t.Error("the machine was busy all the time")
}

// runTicks returns the ticks that were run, and whether a process was late, other than the one that was frozen, or
// did not run within some periods.
func runTicks(t *testing.T) (runs []int64, busy bool) {
	server := redistest.Start(t)
	list := func(args ...string) (out []string) {
		reply, err := server.Do(args...)
		require.NoError(t, err)
		for _, v := range reply.([]any) {
			out = append(out, v.(string))
		}
		return out
	}
	start := func(by time.Duration, name string) *redistest.Proc {
		p := redistest.Child(t, "ticks", server.Addr(), by.String(), name)
		_, err := p.Expect("ready", kit.Soon)
		require.NoError(t, err)
		return p
	}
	ran := func(p *redistest.Proc, times int) {
		for range times {
			if _, err := p.Line(5 * period); err != nil {
				busy = true
			}
		}
	}
	ahead := start(skew, "ahead")
	ran(ahead, 1)
	right, behind := start(0, "right"), start(-skew, "behind")
	ran(ahead, 2)
	require.NoError(t, ahead.Freeze())
	ran(right, 2)
	right.Kill()
	ran(behind, 2)
	busy = busy || len(list("SMEMBERS", "late")) > 0
	require.NoError(t, ahead.Thaw())
	ran(behind, 2) // when ahead wakes up, the lock is taken until the others have tried the next tick
	busy = busy || slices.Contains(list("SMEMBERS", "late"), "behind")
	for _, s := range list("LRANGE", "ticks", "0", "-1") {
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		runs = append(runs, n)
	}
	for _, p := range []*redistest.Proc{ahead, behind} {
		p.Kill()
	}
	return runs, busy
}
