// Package relockasynq lets tasks of [asynq] run under locks of [relock]: [TryDo] and [Do] are
// middleware, and [RunScheduler] runs one of several schedulers.
package relockasynq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/relock-go/relock"
)

// TryDo returns middleware that runs each task under the lock that the function returns for it, or
// the permit of a [relock.Semaphore]. If it returns a nil Locker, the task runs without a lock. If
// the lock is taken, the handler is not called, and the error is [relock.ErrTaken]: asynq retries
// the task later, which uses up no retry if [asynq.Config] has [IsFailure].
//
// On the last attempt TryDo waits for the lock until the task's deadline, as Do does: asynq
// archives a task that has no retry left upon any error, whatever IsFailure says. So a task with
// asynq.MaxRetry(0) always waits.
//
// The context of the handler ends when the lock is lost; [relock.Token] and [relock.HoldOf] know
// the hold. The error is [relock.ErrLost] then, also if the handler returns nil, and counts as a
// failure.
//
// The lock is held until the handler returns or panics, also if asynq has abandoned the run, as it
// does at the task's deadline and after ShutdownTimeout. So the next run does not begin beside it.
// Shut the server down before you close the session.
//
// Each run has an owner of its own, also if the contexts of all tasks have one owner.
func TryDo(lock func(*asynq.Task) relock.Locker) asynq.MiddlewareFunc {
	return middleware(lock, false)
}

// Do is [TryDo] with a wait: the task queues for the lock, and occupies a worker of the server
// meanwhile. A lock with [relock.WithWait] bounds that; afterwards the task is retried as with
// TryDo. Without, it ends with the task's deadline, which uses up a retry.
func Do(lock func(*asynq.Task) relock.Locker) asynq.MiddlewareFunc { return middleware(lock, true) }

func middleware(lock func(*asynq.Task) relock.Locker, wait bool) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			l := lock(task)
			if l == nil {
				return next.ProcessTask(ctx, task)
			}
			ctx, last := own(ctx), lastAttempt(ctx)
			for {
				ran, err := run(ctx, l, wait || last, func(ctx context.Context) error {
					return next.ProcessTask(ctx, task)
				})
				switch {
				case ran:
					return err
				case isAny(err, relock.ErrTaken, relock.ErrUnavailable):
					if !last || ctx.Err() != nil {
						return &notRun{err}
					}
				case isAny(err, relock.ErrReplicas, relock.ErrClosed):
					return &notRun{err}
				default: // a bad name or option
					return err
				}
			}
		})
	}
}

// run calls f under the lock. It reports whether f was called.
func run(
	ctx context.Context, l relock.Locker, wait bool, f func(context.Context) error,
) (ran bool, err error) {
	if wait {
		err = relock.Do(ctx, l, func(ctx context.Context) error {
			ran = true
			return f(ctx)
		})
		return ran, err
	}
	ran, err = relock.TryDo(ctx, l, f)
	if !ran && err == nil {
		name := "the lock"
		if n, ok := l.(interface{ Name() string }); ok {
			name = n.Name()
		}
		err = fmt.Errorf("relockasynq: %s: %w", name, relock.ErrTaken)
	}
	return ran, err
}

// own returns a context with an owner of its own. Tasks whose contexts share one, such as that of
// [asynq.Config.BaseContext], would all enter the same lock.
func own(ctx context.Context) context.Context {
	if s, ok := relock.FromContext(ctx); ok {
		return s.NewContext(ctx)
	}
	return ctx
}

// lastAttempt reports whether asynq archives the task upon any error.
func lastAttempt(ctx context.Context) bool {
	retried, ok := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return ok && retried >= most
}

// notRun is the error of a task whose handler was not called, since the lock could not be had now.
type notRun struct{ err error }

func (e *notRun) Error() string { return e.err.Error() }
func (e *notRun) Unwrap() error { return e.err }

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(e error) bool { return errors.Is(err, e) })
}

func isNotRun(err error) bool { return errors.As(err, new(*notRun)) }

// IsFailure returns a function for [asynq.Config] that does not count a task as failed if the
// middleware did not call its handler: because the lock was taken, Redis or its replicas did not
// answer, or the session is closed. Such a task keeps its retries. IsFailure asks next about other
// errors, among them an ErrTaken that the handler returns, of a lock of its own. A nil next counts
// all of them, as asynq does by itself.
func IsFailure(next func(error) bool) func(error) bool {
	return func(err error) bool {
		if isNotRun(err) {
			return false
		}
		return err != nil && (next == nil || next(err))
	}
}

// RetryDelay returns a function for [asynq.Config] that retries a task after d if the middleware
// did not call its handler. It asks next about other errors; nil stands for
// [asynq.DefaultRetryDelayFunc], whose first delay is 15 to 44 s. asynq drops fractions of a
// second, and looks for due tasks every DelayedTaskCheckInterval of its Config, by default 5 s.
func RetryDelay(d time.Duration, next asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if next == nil {
		next = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, task *asynq.Task) time.Duration {
		if isNotRun(err) {
			return d
		}
		return next(n, err, task)
	}
}
