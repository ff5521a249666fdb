package relockgocron_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/relock-go/relock"
	relockgocron "github.com/relock-go/relock/adapters/gocron"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/snippets"
	"github.com/stretchr/testify/require"
)

func everyTick(session *relock.Session, report func(context.Context, int64) error) error {
	locker := relockgocron.NewLocker(session, relock.WithMinHold(30*time.Second))
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	_, err = s.NewJob(gocron.CronJob("*/5 * * * *", false), gocron.NewTask(func(ctx context.Context) error {
		ctx = relockgocron.Context(ctx) // ends when the lock is lost
		return report(ctx, relock.Token(ctx))
	}), gocron.WithName("report"))
	return errors.Join(err, s.Shutdown())
}

func oneLeader(session *relock.Session, report func(context.Context, int64) error) error {
	elector := relockgocron.NewElector(session, "scheduler", relock.WithLease(10*time.Second))
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		return err
	}
	_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(func(ctx context.Context) error {
		ctx, cancel := elector.Context(ctx) // ends when another leads
		defer cancel()
		return report(ctx, relock.Token(ctx))
	}))
	return errors.Join(err, s.Shutdown(), elector.Close(context.Background()))
}

func TestREADMEHasThesePrograms(t *testing.T) {
	t.Parallel()
	snippets.Same(t, "README.md", "go", 30, "example_test.go")
	session := kit.NewSession(t, redistest.Start(t))
	report := func(context.Context, int64) error { return nil }
	require.NoError(t, everyTick(session, report))
	require.NoError(t, oneLeader(session, report))
}
