package relockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/relock-go/relock"
	relockasynq "github.com/relock-go/relock/adapters/asynq"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/relocktest"
	"github.com/stretchr/testify/require"
)

func nothing(context.Context, *asynq.Task) error { return nil }

// Two servers run tasks of two customers, which read a counter and write it back. The contexts of
// all tasks of a server have one owner.
func TestTasksOfACustomerExcludeEachOtherAndKeepTheirRetries(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]func(func(*asynq.Task) relock.Locker) asynq.MiddlewareFunc{
		"TryDo": relockasynq.TryDo, "Do": relockasynq.Do,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, server := newWorld(t)
			const tasks = 8
			for range 2 {
				client := server.Client(t)
				session := kit.SessionOn(t, client, relock.WithPrefix("lock:"))
				base := session.NewContext(kit.Background)
				w.serve(m(byCustomer(session)), func(ctx context.Context, task *asynq.Task) error {
					return kit.Bump(ctx, client, string(task.Payload()))
				}, func(c *asynq.Config) { c.BaseContext = func() context.Context { return base } })
			}
			var ids []string
			for i := range 2 * tasks {
				ids = append(ids, w.enqueue(fmt.Sprint(i%2), asynq.MaxRetry(1)))
			}
			for _, id := range ids {
				require.Zero(t, w.until(id, asynq.TaskStateCompleted).Retried)
			}
			for _, customer := range []string{"0", "1"} {
				require.Equal(t, tasks, kit.Counted(t, server.Client(t), customer))
			}
		})
	}
}

func TestPermitsBoundHowManyTasksRun(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t)
	session := newSession(t, server)
	permits := session.Semaphore("api", 2)
	var running, most atomic.Int32
	lock := func(*asynq.Task) relock.Locker { return permits }
	w.serve(relockasynq.Do(lock), func(context.Context, *asynq.Task) error {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(often)
		return nil
	})
	var ids []string
	for range 8 {
		ids = append(ids, w.enqueue("a"))
	}
	for _, id := range ids {
		w.until(id, asynq.TaskStateCompleted)
	}
	require.LessOrEqual(t, most.Load(), int32(2))
}

func TestTaskThatFindsTheLockTakenKeepsItsRetryCount(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t)
	session := newSession(t, server)
	fails := errors.New("out of paper")
	var calls atomic.Int32
	w.serve(relockasynq.TryDo(byCustomer(session)), func(context.Context, *asynq.Task) error {
		if calls.Add(1) == 1 {
			return fails
		}
		return nil
	})
	release := w.take("a")
	id := w.enqueue("a", asynq.MaxRetry(2))
	w.attempts(4, relock.ErrTaken)
	info := w.until(id, asynq.TaskStateRetry)
	require.Zero(t, info.Retried)
	require.Contains(t, info.LastErr, "customer:a")
	require.Zero(t, calls.Load())
	stats, err := w.inspector.GetQueueInfo(queue)
	require.NoError(t, err)
	require.Zero(t, stats.Failed)

	release()
	require.Equal(t, 1, w.until(id, asynq.TaskStateCompleted).Retried, "the handler has failed once")
	require.Equal(t, 1, w.errors(fails))
}

// asynq archives a task without a retry upon any error.
func TestLastAttemptWaitsForTheLock(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]relock.LockOption{
		"unbounded": nil, "WithWait": {relock.WithWait(often)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, server := newWorld(t)
			session := newSession(t, server)
			w.serve(relockasynq.TryDo(byCustomer(session, opts...)), nothing)
			release := w.take("a")
			id := w.enqueue("a", asynq.MaxRetry(0))
			kit.Waits(t, session, "customer:a")
			time.Sleep(2 * often) // longer than WithWait
			kit.Waits(t, session, "customer:a")
			require.Equal(t, asynq.TaskStateActive, w.until(id, asynq.TaskStateActive).State)
			release()
			w.until(id, asynq.TaskStateCompleted)
			require.Zero(t, w.errors(relock.ErrTaken))
		})
	}
}

func TestDoWaitsInTheWorkerForAsLongAsTheLockSays(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t)
	session := newSession(t, server)
	release := w.take("a")
	var wait atomic.Int64
	wait.Store(int64(time.Hour))
	w.serve(relockasynq.Do(func(task *asynq.Task) relock.Locker {
		return byCustomer(session, relock.WithWait(time.Duration(wait.Load())))(task)
	}), nothing)
	id := w.enqueue("a")
	kit.Waits(t, session, "customer:a")
	require.Zero(t, w.errors(relock.ErrTaken))
	release()
	w.until(id, asynq.TaskStateCompleted)

	defer w.take("a")()
	wait.Store(int64(often))
	id = w.enqueue("a")
	w.attempts(2, relock.ErrTaken)
	require.Zero(t, w.until(id, asynq.TaskStateRetry).Retried)
}

func TestHandlersContextEndsWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t)
	session := newSession(t, server)
	causes := make(chan error, 1)
	w.serve(relockasynq.TryDo(byCustomer(session)), func(ctx context.Context, _ *asynq.Task) error {
		if relock.Token(ctx) == 0 {
			return errors.New("the handler does not know its hold")
		}
		if n, _ := asynq.GetRetryCount(ctx); n > 0 {
			return nil
		}
		opened, err := w.session.ForceUnlock(kit.Background, "customer:a")
		if err != nil || !opened {
			return fmt.Errorf("not opened: %w", err)
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	})
	id := w.enqueue("a")
	require.ErrorIs(t, kit.Receive(t, causes, "the end of the context"), relock.ErrForced)
	require.Equal(t, 1, w.until(id, asynq.TaskStateCompleted).Retried)
	require.Equal(t, 1, w.errors(relock.ErrLost))
}

func TestLockOfAHandlerThatPanicsIsReleased(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t)
	session := newSession(t, server)
	w.serve(relockasynq.TryDo(byCustomer(session)), func(context.Context, *asynq.Task) error {
		panic("oops")
	}, func(c *asynq.Config) { c.RetryDelayFunc = relockasynq.RetryDelay(0, never) })
	id := w.enqueue("a")
	info := w.until(id, asynq.TaskStateRetry)
	require.Equal(t, 1, info.Retried)
	require.Contains(t, info.LastErr, "oops")
	w.take("a")()
}

// asynq abandons a run at its deadline, although the handler goes on. The next run does not begin
// beside it.
func TestRunThatAsynqHasAbandonedExcludesTheNext(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t)
	session := newSession(t, server)
	began, proceed := make(chan context.Context, 2), make(chan struct{})
	w.serve(relockasynq.TryDo(byCustomer(session)), func(ctx context.Context, _ *asynq.Task) error {
		began <- ctx
		<-proceed
		return nil
	})
	id := w.enqueue("a", asynq.Timeout(time.Second))
	first := kit.Receive(t, began, "a run")
	w.attempts(2, relock.ErrTaken)
	require.ErrorIs(t, first.Err(), context.DeadlineExceeded)
	require.Equal(t, 1, w.errors(context.DeadlineExceeded))
	require.Empty(t, began)
	close(proceed)
	require.Equal(t, 1, w.until(id, asynq.TaskStateCompleted).Retried)
}

// A server that shuts down gives its tasks back. Another one runs them when the handler has
// returned.
func TestShutdownKeepsTheLockUntilTheHandlerReturns(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t)
	one, two := newSession(t, server), newSession(t, server)
	began, proceed := make(chan context.Context, 1), make(chan struct{})
	m := relockasynq.TryDo(byCustomer(one))
	leaves := w.serve(m, func(ctx context.Context, _ *asynq.Task) error {
		began <- ctx
		<-proceed
		return nil
	}, func(c *asynq.Config) { c.ShutdownTimeout = often })
	id := w.enqueue("a", asynq.MaxRetry(1))
	run := kit.Receive(t, began, "a run")
	leaves.Shutdown()
	<-run.Done()
	w.until(id, asynq.TaskStatePending)
	w.serve(relockasynq.TryDo(byCustomer(two)), nothing)
	w.attempts(1, relock.ErrTaken)
	close(proceed)
	require.Zero(t, w.until(id, asynq.TaskStateCompleted).Retried)
}

// It is not known whether the lock is taken, and the task keeps its retries.
func TestTaskThatRedisDoesNotAnswerKeepsItsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		s := r.Session()
		h := relockasynq.TryDo(byCustomer(s))(asynq.HandlerFunc(nothing))
		require.NoError(t, h.ProcessTask(t.Context(), asynq.NewTask("ship", []byte("a"))))
		defer r.Partition(s)()
		err := h.ProcessTask(t.Context(), asynq.NewTask("ship", []byte("b")))
		require.ErrorIs(t, err, relock.ErrUnavailable)
		require.False(t, relockasynq.IsFailure(nil)(err))
	})
}

func TestErrorsThatCount(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t)
	session, closed := newSession(t, server), newSession(t, server)
	require.NoError(t, closed.Close(kit.Background))
	w.take("free")()
	defer w.take("taken")()
	own := errors.New("of the handler")
	call := func(l relock.Locker) error {
		m := relockasynq.TryDo(func(*asynq.Task) relock.Locker { return l })
		return m(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return own })).
			ProcessTask(t.Context(), asynq.NewTask("ship", nil))
	}
	failed := relockasynq.IsFailure(nil)
	delay := relockasynq.RetryDelay(time.Minute, never)
	for _, c := range []struct {
		l      relock.Locker
		want   error
		counts bool
	}{
		{nil, own, true},
		{session.Mutex("customer:free"), own, true},
		{session.Mutex("customer:taken"), relock.ErrTaken, false},
		{closed.Mutex("customer:free"), relock.ErrClosed, false},
		{session.Mutex("x{"), relock.ErrName, true},
		{session.Mutex("x", relock.WithMinHold(0)), relock.ErrOption, true},
	} {
		err := call(c.l)
		require.ErrorIs(t, err, c.want)
		require.Equal(t, c.counts, failed(err), "%v", err)
		require.Equal(t, c.counts, delay(0, err, nil) == time.Hour, "%v", err)
	}
	require.ErrorContains(t, call((*relock.Mutex)(nil)), "Locker is nil", "a mistake, so an error")
	require.False(t, failed(nil))
	require.True(t, failed(fmt.Errorf("of the handler's own lock: %w", relock.ErrTaken)))
	require.False(t, relockasynq.IsFailure(func(error) bool { return false })(own))
	require.GreaterOrEqual(t, relockasynq.RetryDelay(0, nil)(0, own, nil), 15*time.Second)
}
