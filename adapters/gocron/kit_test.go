package relockgocron_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){"ticks": ticks, "elected": elected})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// skewed is a clock that differs from the machine's.
type skewed struct {
	clockwork.Clock
	by time.Duration
}

func (s skewed) Now() time.Time                  { return s.Clock.Now().Add(s.by) }
func (s skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }
func (s skewed) Until(t time.Time) time.Duration { return t.Sub(s.Now()) }

// scheduler returns a scheduler of gocron, which is shut down when the test ends.
func scheduler(t testing.TB, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	return s
}

// every adds a job that runs at each multiple of a period by the scheduler's clock.
func every(s gocron.Scheduler, clock clockwork.Clock, period time.Duration, name string, job any) error {
	start := clock.Now().Truncate(period).Add(2 * period)
	_, err := s.NewJob(gocron.DurationJob(period), gocron.NewTask(job), gocron.WithName(name),
		gocron.WithStartAt(gocron.WithStartDateTime(start)))
	if err == nil {
		s.Start()
	}
	return err
}

func lines(s string) []string { return strings.Split(s, "\n") }

type lockerFunc func(ctx context.Context, key string) (gocron.Lock, error)

func (f lockerFunc) Lock(ctx context.Context, key string) (gocron.Lock, error) { return f(ctx, key) }
