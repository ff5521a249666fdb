package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
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

// Four processes of 20 callers each.
func TestStampedeComputesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		cache := redis.Client()
		computed := make(chan string, 100)
		fails := errors.New("cannot compute")
		compute := func(context.Context) (string, error) {
			time.Sleep(time.Second)
			if len(computed) == 1 { // the second time
				computed <- ""
				return "", fails
			}
			value := fmt.Sprint(len(computed))
			computed <- value
			return value, nil
		}
		callers := func(want string, failed int) {
			var all sync.WaitGroup
			values, errs := make(chan string, 80), make(chan error, 80)
			for range 4 {
				session := redis.Session()
				for range 20 {
					all.Go(func() {
						if value, err := cached(background, cache, session, "page", compute); err != nil {
							errs <- err
						} else {
							values <- value
						}
					})
				}
			}
			all.Wait()
			require.Len(t, errs, failed)
			for range failed {
				require.ErrorIs(t, <-errs, fails)
			}
			require.Len(t, values, 80-failed)
			for range 80 - failed {
				require.Equal(t, want, <-values)
			}
		}
		callers("0", 0)
		callers("0", 0) // without computing
		require.Len(t, computed, 1)
		time.Sleep(2 * time.Minute)
		callers("2", 1) // one failed, the next did it
		require.Len(t, computed, 3)
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
