package relockasynq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// A Scheduler is an [asynq.Scheduler] or an [asynq.PeriodicTaskManager].
type Scheduler interface {
	Start() error
	Shutdown()
}

// RunScheduler runs one scheduler of several processes, each of which calls it: it waits for the
// lock, makes a scheduler with the function, and runs it while the lock is held. After a loss it
// shuts the scheduler down and waits for the lock again. It returns nil when ctx ends, after it has
// shut the scheduler down and unlocked, so that the next process takes over at once. After a crash
// that takes up to a lease ([relock.WithLease]).
//
// It also returns if it cannot go on: the function or Start fails, the session is closed, or the
// lock has a bad name or option.
//
// Around a takeover a task may be missed or enqueued twice. What is due while no scheduler runs is
// not enqueued, and "@every 1h" counts from the takeover on. A process that was frozen, or waits
// for an answer of Redis, may enqueue a task after it has lost the lock: see [asynq.TaskID] with
// [asynq.Retention], and [asynq.Unique]. An orderly end enqueues nothing twice.
func RunScheduler[S Scheduler](ctx context.Context, lock relock.Locker, create func() (S, error)) error {
	for {
		ran := false
		var failed error // of create or Start
		err := relock.Do(own(ctx), lock, func(ctx context.Context) error {
			ran = true
			s, err := create()
			if err == nil {
				err = s.Start()
			}
			if err != nil {
				failed = err
				return err
			}
			<-ctx.Done()
			s.Shutdown()
			return nil
		})
		switch {
		case failed != nil:
			return fmt.Errorf("relockasynq: the scheduler does not start: %w", failed)
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, relock.ErrClosed):
			return err
		case ran, errors.Is(err, relock.ErrTaken): // lost, or not held within WithWait
			continue
		case !errors.Is(err, relock.ErrUnavailable) && !errors.Is(err, relock.ErrReplicas):
			return err
		}
		select { // not at once again
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
