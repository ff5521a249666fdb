package relockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/relock-go/relock"
	relockasynq "github.com/relock-go/relock/adapters/asynq"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const (
	queue = "default"
	often = 10 * time.Millisecond
)

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){"schedule": schedule})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// A world is a Redis server with the queues of asynq and the locks.
type world struct {
	t         *testing.T
	redis     asynq.RedisClientOpt
	session   *relock.Session // of an operator
	client    *asynq.Client
	inspector *asynq.Inspector

	mu   sync.Mutex // protects the following
	errs []error    // that asynq has got from tasks
}

func newWorld(t *testing.T) (*world, *redistest.Server) {
	server := redistest.Start(t)
	w := &world{t: t, redis: asynq.RedisClientOpt{Addr: server.Addr()}, session: newSession(t, server)}
	w.client, w.inspector = asynq.NewClient(w.redis), asynq.NewInspector(w.redis)
	t.Cleanup(func() {
		require.NoError(t, w.client.Close())
		require.NoError(t, w.inspector.Close())
	})
	return w, server
}

func newSession(t *testing.T, server *redistest.Server) *relock.Session {
	return kit.NewSession(t, server, relock.WithPrefix("lock:"))
}

// serve starts a server that runs tasks under the middleware. It is shut down when the test ends.
func (w *world) serve(
	m asynq.MiddlewareFunc, handler asynq.HandlerFunc, mod ...func(*asynq.Config),
) *asynq.Server {
	w.t.Helper()
	config := asynq.Config{
		Concurrency: 4, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: often, DelayedTaskCheckInterval: often,
		IsFailure: relockasynq.IsFailure(nil), RetryDelayFunc: relockasynq.RetryDelay(0, atOnce),
		ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.errs = append(w.errs, err)
		}),
	}
	for _, f := range mod {
		f(&config)
	}
	s := asynq.NewServer(w.redis, config)
	require.NoError(w.t, s.Start(m(handler)))
	w.t.Cleanup(s.Shutdown)
	return s
}

func atOnce(int, error, *asynq.Task) time.Duration { return 0 }

// never retries a task, as far as a test is concerned.
func never(int, error, *asynq.Task) time.Duration { return time.Hour }

// enqueue returns the id of a task that stays known when it is complete.
func (w *world) enqueue(customer string, opts ...asynq.Option) (id string) {
	w.t.Helper()
	info, err := w.client.Enqueue(asynq.NewTask("ship", []byte(customer)),
		append([]asynq.Option{asynq.Retention(time.Hour)}, opts...)...)
	require.NoError(w.t, err)
	return info.ID
}

// until waits until a task is in a state.
func (w *world) until(id string, state asynq.TaskState) (info *asynq.TaskInfo) {
	w.t.Helper()
	redistest.Eventually(w.t, kit.Soon, fmt.Sprintf("the task to be %v", state), func() bool {
		var err error
		info, err = w.inspector.GetTaskInfo(queue, id)
		return err == nil && info.State == state
	})
	return info
}

// attempts waits until so many attempts have ended with an error.
func (w *world) attempts(n int, target error) {
	w.t.Helper()
	redistest.Eventually(w.t, kit.Soon, fmt.Sprintf("%d times: %v", n, target), func() bool {
		return w.errors(target) >= n
	})
}

// errors returns how many attempts have ended with an error.
func (w *world) errors(target error) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.errs {
		if errors.Is(err, target) {
			n++
		}
	}
	return n
}

// byCustomer returns the lock of a task.
func byCustomer(s *relock.Session, opts ...relock.LockOption) func(*asynq.Task) relock.Locker {
	return func(task *asynq.Task) relock.Locker {
		return s.Mutex("customer:"+string(task.Payload()), opts...)
	}
}

func (w *world) take(customer string) (release func()) {
	w.t.Helper()
	hold, err := w.session.Mutex("customer:" + customer).TryAcquire(kit.Background)
	require.NoError(w.t, err)
	return func() { require.NoError(w.t, hold.Unlock(kit.Background)) }
}
