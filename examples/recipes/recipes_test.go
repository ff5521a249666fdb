package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/snippets"
	"github.com/relock-go/relock/relocktest"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

var background = context.Background()

// The page shows these programs as they are, and each has at most 30 lines.
func TestPageShowsThesePrograms(t *testing.T) {
	snippets.Same(t, "../../docs/recipes.md", "go", 30, "*.go")
}

// Three hosts whose clocks differ by up to 2 minutes have a timetable of 20 minutes.
func TestNightlyRunsOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		runs, start := make(chan int, 100), time.Now()
		var hosts sync.WaitGroup
		for _, skew := range []time.Duration{0, time.Minute, 2 * time.Minute} {
			session := redis.Session()
			hosts.Go(func() {
				time.Sleep(skew)
				for period := range 6 {
					require.NoError(t, nightly(background, session, func(context.Context) error {
						runs <- period
						time.Sleep(200 * time.Millisecond)
						return nil
					}))
					time.Sleep(time.Until(start.Add(skew + time.Duration(period+1)*20*time.Minute)))
				}
			})
		}
		hosts.Wait()
		close(runs)
		period := 0
		for run := range runs {
			require.Equal(t, period, run)
			period++
		}
		require.Equal(t, 6, period)
	})
}

// Three hosts call report. The job fails, its host is cut off, and then another host succeeds.
func TestReportIsTriedUntilItHasSucceededOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		fails := errors.New("no disk")
		var mu sync.Mutex
		var tries []string // of each period
		job := func(session *relock.Session, period string) func(context.Context) error {
			return func(ctx context.Context) error {
				mu.Lock()
				tries = append(tries, period)
				n := len(tries)
				mu.Unlock()
				switch n {
				case 1, 2:
					return fails
				case 3:
					heal := redis.Partition(session)
					<-ctx.Done()
					heal()
					return context.Cause(ctx)
				}
				time.Sleep(time.Second)
				return nil
			}
		}
		sessions := []*relock.Session{redis.Session(), redis.Session(), redis.Session()}
		for _, period := range []string{"2026-05-01", "2026-05-02"} {
			ctx, cancel := context.WithTimeout(background, time.Hour)
			var hosts sync.WaitGroup
			for _, session := range sessions {
				hosts.Go(func() { require.NoError(t, report(ctx, session, period, job(session, period))) })
			}
			hosts.Wait()
			cancel()
		}
		require.Equal(t, []string{"2026-05-01", "2026-05-01", "2026-05-01", "2026-05-01", "2026-05-02"}, tries)

		ctx, cancel := context.WithTimeout(background, 9*time.Minute+time.Second)
		defer cancel()
		failing := 0
		err := report(ctx, sessions[0], "2026-05-03", func(context.Context) error { failing++; return fails })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 10, failing, "once a minute")
	})
}

// A holder loses the lock, and does not learn of it before it records. Meanwhile others have done
// its period and the next one.
func TestLateReportIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		late, other := redis.Session(), redis.Session()
		quick := func(context.Context) error { return nil }
		recorded := func() string {
			client := redis.Client()
			last, err := client.Do(background, client.B().Get().Key("{report}:done").Build()).ToString()
			require.NoError(t, err)
			return last
		}
		runs := 0
		require.NoError(t, report(background, late, "2026-05-01", func(ctx context.Context) error {
			runs++
			redis.Delete("{report}")
			require.NoError(t, report(background, other, "2026-05-01", quick))
			require.NoError(t, report(background, other, "2026-05-02", quick))
			require.NoError(t, relock.HoldOf(ctx).Err(), "it has learned of the loss")
			return nil
		}))
		require.Equal(t, 1, runs)
		require.Equal(t, "2026-05-02", recorded())
	})
}

func TestLeaderIsKnownByAddressAndTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		observer := redis.Session()
		ctx, stop := context.WithCancel(background)
		var working sync.WaitGroup
		defer working.Wait()
		defer stop()
		followed := make(chan [2]any, 10)
		working.Go(func() { follow(ctx, observer, func(address string, term int64) { followed <- [2]any{address, term} }) })
		require.Equal(t, [2]any{"", int64(0)}, <-followed)

		terms := make(chan [2]any, 10)
		for _, host := range []string{"10.0.0.1:80", "10.0.0.2:80"} {
			session := redis.Session(relock.WithLabel(host))
			working.Go(func() {
				lead(ctx, session, func(ctx context.Context, term int64) error {
					terms <- [2]any{host, term}
					<-ctx.Done()
					return context.Cause(ctx)
				})
			})
		}
		last := int64(0)
		for range 3 {
			leads := <-terms
			require.Greater(t, leads[1], last)
			last = leads[1].(int64)
			require.Equal(t, leads, <-followed)
			time.Sleep(4 * time.Minute)
			require.Empty(t, followed, "told again, though it has led all the while")
			redis.Lose("leader")
		}
	})
}

// A call of a cache that computes for 200 ms, by all callers of all processes at once.
type call struct {
	page string
	err  error
	took time.Duration
}

func callAll(processes []*pages, callers int, key string) (calls []call) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, p := range processes {
		for range callers {
			all.Go(func() {
				start := time.Now()
				page, err := p.get(background, key)
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, call{page, err, time.Since(start)})
			})
		}
	}
	all.Wait()
	return calls
}

// One of four processes computes. Each process looks twice, whatever the number of its callers, and
// none of these waits for another.
func TestStampedeComputesOnceAndWaitersAreNotSerialised(t *testing.T) {
	const callers, computing, trip = 250, 200 * time.Millisecond, 2 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		var computed, looks atomic.Int64
		fails := errors.New("cannot compute")
		compute := func(context.Context, string) (string, error) {
			time.Sleep(computing)
			if n := computed.Add(1); n != 2 {
				return fmt.Sprint(n), nil
			}
			return "", fails
		}
		var processes []*pages
		for range 4 {
			session := redis.Session()
			client := redis.ClientOf(session)
			processes = append(processes, &pages{session: session, redis: client, compute: compute})
			for i := range 64 { // the client dials all its connections, which keys choose
				require.NoError(t, client.Do(background, client.B().Exists().Key(fmt.Sprint(i)).Build()).Error())
			}
			redis.Delay(session, trip/2)
		}
		memredis.Of(redis, processes[0].session).Server().OnCommand(func(verb string, args []string) string {
			if verb == "GET" && len(args) == 1 && args[0] == "page" {
				looks.Add(1)
			}
			return ""
		})

		for _, c := range callAll(processes, callers, "page") {
			require.NoError(t, c.err)
			require.Equal(t, "1", c.page)
			require.Less(t, c.took, computing+50*trip)
		}
		require.EqualValues(t, 1, computed.Load())
		require.EqualValues(t, 2*len(processes), looks.Swap(0))

		for _, c := range callAll(processes, callers, "page") {
			require.Equal(t, call{page: "1", took: trip}, c)
		}
		require.EqualValues(t, len(processes), looks.Load())

		time.Sleep(2 * time.Minute) // the page expires
		failed := 0
		for _, c := range callAll(processes, callers, "page") {
			if c.err != nil {
				require.ErrorIs(t, c.err, fails)
				failed++
			} else {
				require.Equal(t, "3", c.page)
			}
		}
		require.Equal(t, callers, failed, "the callers of one process")
		require.EqualValues(t, 3, computed.Load())
	})
}

// The caller that began the load gives up. The load is not its own.
func TestLoadOutlivesTheCallerThatBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		session := redis.Session()
		p := &pages{session: session, redis: redis.ClientOf(session), compute: func(ctx context.Context, _ string) (string, error) {
			select {
			case <-time.After(time.Second):
				return "page", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}}
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		first := make(chan error, 1)
		go func() {
			_, err := p.get(ctx, "page")
			first <- err
		}()
		synctest.Wait()
		page, err := p.get(background, "page")
		require.NoError(t, err)
		require.Equal(t, "page", page)
		require.ErrorIs(t, <-first, context.DeadlineExceeded)
	})
}

// Three processes make ten calls each. No more than n are under way at once, and no more wait than must.
func TestLimitHolds(t *testing.T) {
	const n, calls = 3, 30
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		var mu sync.Mutex
		now, most, done := 0, 0, 0
		var all sync.WaitGroup
		start := time.Now()
		for range 3 {
			session := redis.Session()
			for range calls / 3 {
				all.Go(func() {
					require.ErrorIs(t, limited(background, session, "api", n, func(context.Context) error {
						mu.Lock()
						now++
						most = max(most, now)
						mu.Unlock()
						time.Sleep(time.Second)
						mu.Lock()
						now--
						done++
						mu.Unlock()
						return relock.ErrTaken // as a call with a lock of its own may: it is not made again
					}), relock.ErrTaken)
				})
			}
		}
		all.Wait()
		require.Equal(t, n, most)
		require.Equal(t, calls, done)
		require.Less(t, time.Since(start), (calls/n+1)*time.Second)

		ctx, cancel := context.WithTimeout(background, 5*time.Second)
		defer cancel()
		others := redis.Session().Semaphore("api", n)
		for range n {
			require.NoError(t, others.Lock(background))
		}
		err := limited(ctx, redis.Session(), "api", n, func(context.Context) error { panic("called") })
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
