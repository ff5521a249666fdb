package relockasynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/relock-go/relock"
	relockasynq "github.com/relock-go/relock/adapters/asynq"
	"github.com/relock-go/relock/internal/snippets"
)

var (
	session *relock.Session // one per process
	redis   = asynq.RedisClientOpt{Addr: "127.0.0.1:6379"}
	ship    = func(ctx context.Context, customer string, token int64) error { return nil }
)

// Tasks of one customer run one at a time, on whatever server.
func ExampleTryDo() {
	server := asynq.NewServer(redis, asynq.Config{
		IsFailure:      relockasynq.IsFailure(nil),                 // a taken lock uses up no retry,
		RetryDelayFunc: relockasynq.RetryDelay(5*time.Second, nil), // and the next attempt is 5 s later
	})
	mux := asynq.NewServeMux()
	mux.Use(relockasynq.TryDo(func(task *asynq.Task) relock.Locker {
		return session.Mutex("customer:" + string(task.Payload()))
	}))
	mux.HandleFunc("ship", func(ctx context.Context, task *asynq.Task) error {
		return ship(ctx, string(task.Payload()), relock.Token(ctx)) // ctx ends when the lock is lost
	})
	_ = server.Run(mux) // then close the session
}

// Of several processes that call this, one enqueues periodic tasks.
func ExampleRunScheduler() {
	ctx := context.Background()
	create := func() (*asynq.Scheduler, error) {
		s := asynq.NewScheduler(redis, nil)
		_, err := s.Register("*/5 * * * *", asynq.NewTask("report", nil),
			asynq.TaskID("report"), asynq.Retention(time.Minute)) // not twice within a minute
		return s, err
	}
	lock := session.Mutex("scheduler", relock.WithLease(10*time.Second))
	_ = relockasynq.RunScheduler(ctx, lock, create) // until ctx ends
}

func TestREADMEHasThesePrograms(t *testing.T) {
	t.Parallel()
	snippets.Same(t, "README.md", "go", 30, "example_test.go")
}
