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

// RunScheduler runs a scheduler in one of the processes that call it. It waits for the lock, makes
// a scheduler with create, and runs it while the lock is held. After a loss it shuts the scheduler
// down and waits for the lock again. When ctx ends it shuts the scheduler down, unlocks and returns
// nil; the next process takes over at once. After a crash that takes up to a lease
// ([relock.WithLease]).
//
// RunScheduler returns an error if create or Start fails, if the session is closed, and if Redis
// refuses the lock, for instance because of its name.
//
// Around a takeover a task may be missed or enqueued twice. Tasks that are due while no scheduler
// runs are not enqueued, and "@every 1h" counts from the takeover on. A process that was frozen, or
// that Redis answers late, may enqueue a task after it has lost the lock. After a takeover within
// the difference of two clocks, a clock that is behind repeats a task, and one that is ahead misses
// it. [asynq.Unique] refuses the second task until the first is done, [asynq.TaskID] with
// [asynq.Retention] also for a time after that.
func RunScheduler[S Scheduler](
	ctx context.Context, lock relock.Locker, create func() (S, error),
) error {
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
