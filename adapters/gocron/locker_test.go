package relockgocron_test

import (
	"context"
	"testing"

	"github.com/go-co-op/gocron/v2"
	"github.com/relock-go/relock"
	relockgocron "github.com/relock-go/relock/adapters/gocron"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestJobsContextEndsWhenItsLockIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	session, operator := kit.NewSession(t, server), kit.NewSession(t, server)
	locker := relockgocron.NewLocker(session)
	s := scheduler(t, gocron.WithDistributedLocker(locker))
	type begun struct{ job, run context.Context }
	runs, proceed := make(chan begun), make(chan struct{})
	_, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func(ctx context.Context) {
		runs <- begun{ctx, relockgocron.Context(ctx)}
		<-proceed
	}), gocron.WithName("report"))
	require.NoError(t, err)
	s.Start()

	r := <-runs
	require.NoError(t, r.run.Err())
	require.Positive(t, relock.Token(r.run))
	opened, err := operator.ForceUnlock(t.Context(), "report")
	require.NoError(t, err)
	require.True(t, opened)
	<-r.run.Done()
	require.ErrorIs(t, context.Cause(r.run), relock.ErrForced)
	require.NoError(t, r.job.Err(), "the job's own context serves its next runs")

	// While a run that has lost its lock goes on, this process starts no other, although the lock
	// is free.
	_, err = locker.Lock(r.job, "report")
	require.ErrorIs(t, err, relock.ErrTaken)
	held, err := relockgocron.NewLocker(operator).Lock(t.Context(), "report")
	require.NoError(t, err)
	require.NoError(t, held.Unlock(t.Context()))
	close(proceed)
}

func TestLockerRefusesAtOnceAndReleases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := kit.NewSession(t, server), kit.NewSession(t, server)
	a, b := relockgocron.NewLocker(one), relockgocron.NewLocker(two)
	ctx := one.NewContext(t.Context()) // jobs whose contexts have one owner exclude each other as well
	held, err := a.Lock(ctx, "x")
	require.NoError(t, err)
	for _, l := range []gocron.Locker{a, b, relockgocron.NewLocker(one)} {
		_, err = l.Lock(ctx, "x")
		require.ErrorIs(t, err, relock.ErrTaken)
	}
	other, err := a.Lock(ctx, "y")
	require.NoError(t, err)
	require.NoError(t, other.Unlock(ctx))
	require.NoError(t, held.Unlock(ctx))
	require.ErrorIs(t, held.Unlock(ctx), relock.ErrNotHeld)
	held, err = b.Lock(ctx, "x")
	require.NoError(t, err)
	require.NoError(t, held.Unlock(ctx))
	require.Equal(t, ctx, relockgocron.Context(ctx), "no run is under way")

	_, err = relockgocron.NewLocker(one, relock.WithMinHold(0)).Lock(ctx, "x")
	require.ErrorIs(t, err, relock.ErrOption)
	_, err = a.Lock(ctx, "x{")
	require.ErrorIs(t, err, relock.ErrName)
}

// The lock is held after the scheduler has told a job to stop, until the job returns.
func TestLockIsHeldUntilTheJobReturns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := relockgocron.NewLocker(kit.NewSession(t, server)), relockgocron.NewLocker(kit.NewSession(t, server))
	ctx, stop := context.WithCancel(t.Context())
	held, err := a.Lock(ctx, "x")
	require.NoError(t, err)
	run := relockgocron.Context(ctx)
	stop()
	<-run.Done()
	_, err = b.Lock(t.Context(), "x")
	require.ErrorIs(t, err, relock.ErrTaken)
	require.NoError(t, held.Unlock(ctx))
	redistest.Eventually(t, kit.Soon, "lock", func() bool {
		l, err := b.Lock(t.Context(), "x")
		return err == nil && l.Unlock(t.Context()) == nil
	})
}

// A context of any type may be passed, also one that cannot be the key of a map.
func TestContextsThatAreNoKeys(t *testing.T) {
	t.Parallel()
	type odd struct {
		context.Context
		of []string
	}
	ctx := odd{t.Context(), []string{"x"}}
	require.Equal(t, context.Context(ctx), relockgocron.Context(ctx))
	_, err := relockgocron.NewLocker(nil).Lock(ctx, "x")
	require.ErrorContains(t, err, "relockgocron: x: a context of type")
}
