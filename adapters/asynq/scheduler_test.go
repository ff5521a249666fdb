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
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest"
	"github.com/stretchr/testify/require"
)

var (
	_ relockasynq.Scheduler = (*asynq.Scheduler)(nil)
	_ relockasynq.Scheduler = (*asynq.PeriodicTaskManager)(nil)
)

// schedule is a process that enqueues a task with its name, args[1], every second while it leads.
// It prints "leads".
func schedule(args []string) {
	redis := asynq.RedisClientOpt{Addr: args[0]}
	quiet := &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel}
	session, _ := kit.ChildSession(args[0],
		relock.WithPrefix("lock:"), relock.WithLease(2*time.Second))
	fmt.Println("ready")
	kit.ChildCheck(relockasynq.RunScheduler(context.Background(), session.Mutex("scheduler"),
		func() (*asynq.Scheduler, error) {
			s := asynq.NewScheduler(redis, quiet)
			_, err := s.Register("@every 1s", asynq.NewTask(args[1], nil))
			fmt.Println("leads")
			return s, err
		}))
}

// One process runs its scheduler, and is killed. The next one runs its own, and is frozen. When it
// goes on a third one does, and it enqueues nothing more.
func TestAnotherProcessSchedulesWhenOneDies(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t)
	start := func(name string) *redistest.Proc {
		p := redistest.Child(t, "schedule", server.Addr(), name)
		_, err := p.Expect("ready", kit.Soon)
		require.NoError(t, err)
		return p
	}
	leads := func(p *redistest.Proc, name string) {
		t.Helper()
		_, err := p.Expect("leads", kit.Soon)
		require.NoError(t, err)
		redistest.Eventually(t, kit.Soon, "a task of "+name, func() bool { return w.enqueued(name) > 0 })
	}
	one := start("one")
	leads(one, "one")
	two := start("two")
	one.Kill()
	before := w.enqueued("one")
	leads(two, "two")
	require.Equal(t, before, w.enqueued("one"))

	three := start("three")
	require.NoError(t, two.Freeze())
	leads(three, "three")
	require.NoError(t, two.Thaw())
	redistest.Eventually(t, kit.Soon, "the process that was frozen to wait", func() bool {
		s, err := w.session.Inspect(kit.Background, "scheduler")
		require.NoError(t, err)
		return s.Waiters == 1
	})
	before = w.enqueued("two")
	at := w.enqueued("three")
	redistest.Eventually(t, kit.Soon, "two ticks", func() bool { return w.enqueued("three") >= at+2 })
	require.Equal(t, before, w.enqueued("two"))
}

// enqueued returns how many tasks of a type are pending.
func (w *world) enqueued(name string) (n int) {
	tasks, err := w.inspector.ListPendingTasks(queue, asynq.PageSize(1000))
	if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		require.NoError(w.t, err)
	}
	for _, task := range tasks {
		if task.Type == name {
			n++
		}
	}
	return n
}

// What is enqueued twice around a takeover, and how asynq refuses it.
func TestOptionsThatRefuseASecondTask(t *testing.T) {
	t.Parallel()
	w, _ := newWorld(t)
	task := asynq.NewTask("report", nil)
	id, retain := asynq.TaskID("report"), asynq.Retention(time.Hour)
	unique := asynq.Unique(time.Hour)
	first, err := w.client.Enqueue(task, id, retain)
	require.NoError(t, err)
	_, err = w.client.Enqueue(task, id, retain)
	require.ErrorIs(t, err, asynq.ErrTaskIDConflict)
	other, err := w.client.Enqueue(asynq.NewTask("other", nil), unique)
	require.NoError(t, err)
	_, err = w.client.Enqueue(asynq.NewTask("other", nil), unique)
	require.ErrorIs(t, err, asynq.ErrDuplicateTask)

	w.serve(func(h asynq.Handler) asynq.Handler { return h }, nothing)
	w.until(first.ID, asynq.TaskStateCompleted)
	redistest.Eventually(t, kit.Soon, "the other to be done", func() bool {
		_, err := w.inspector.GetTaskInfo(queue, other.ID)
		return errors.Is(err, asynq.ErrTaskNotFound)
	})
	_, err = w.client.Enqueue(task, id, retain)
	require.ErrorIs(t, err, asynq.ErrTaskIDConflict, "also when it is done, for the retention")
	_, err = w.client.Enqueue(asynq.NewTask("other", nil), unique)
	require.NoError(t, err, "until it is done")
}

// fake counts the schedulers that run.
type fake struct {
	*runs
	err error
}

type runs struct{ created, running, most atomic.Int32 }

func (f fake) Start() error {
	if f.err == nil {
		f.created.Add(1)
		f.most.Store(max(f.most.Load(), f.running.Add(1)))
	}
	return f.err
}

func (f fake) Shutdown() { f.running.Add(-1) }

// Of two processes one runs a scheduler. When it loses the lock the other one takes over, and when
// that one ends the first does again.
func TestOneSchedulerRunsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		var of [2]runs
		var ends [2]context.CancelFunc
		ended := make(chan error, 2)
		for i := range 2 {
			s := r.Session()
			ctx, cancel := context.WithCancel(t.Context())
			ends[i] = cancel
			go func() {
				ended <- relockasynq.RunScheduler(ctx, s.Mutex("scheduler"), func() (fake, error) {
					return fake{runs: &of[i]}, nil
				})
			}()
			time.Sleep(time.Second)
		}
		// run says how often each process has begun to run a scheduler, and which one runs it now.
		run := func(first, second int32, now int) {
			t.Helper()
			require.Equal(t, [2]int32{first, second}, [2]int32{of[0].created.Load(), of[1].created.Load()})
			require.EqualValues(t, 1, of[now].running.Load())
			require.Zero(t, of[1-now].running.Load())
		}
		run(1, 0, 0)
		r.Lose("scheduler")
		time.Sleep(time.Minute)
		run(1, 1, 1)
		ends[1]()
		require.NoError(t, <-ended)
		time.Sleep(time.Second)
		run(2, 1, 0)
		ends[0]()
		require.NoError(t, <-ended)
		require.Zero(t, of[0].running.Load())
	})
}

// A process that Redis does not hear of any more has shut its scheduler down before the next one
// runs.
func TestSchedulerOfAProcessThatIsCutOffEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		var both runs
		var sessions [2]*relock.Session
		for i := range sessions {
			sessions[i] = r.Session()
			go func() {
				_ = relockasynq.RunScheduler(t.Context(), sessions[i].Mutex("scheduler"), func() (fake, error) {
					return fake{runs: &both}, nil
				})
			}()
			time.Sleep(time.Second)
		}
		defer r.Partition(sessions[0])()
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, both.created.Load())
		require.EqualValues(t, 1, both.running.Load())
		require.EqualValues(t, 1, both.most.Load())
	})
}

func TestRunSchedulerSaysWhyItCannotGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		s := r.Session()
		oops := errors.New("bad spec")
		var all runs
		run := func(name string, f fake, err error) error {
			return relockasynq.RunScheduler(t.Context(), s.Mutex(name, relock.WithWait(time.Second)),
				func() (fake, error) { return f, err })
		}
		f := fake{runs: &all}
		require.ErrorIs(t, run("scheduler", f, oops), oops)
		require.ErrorIs(t, run("scheduler", fake{&all, oops}, nil), oops)
		require.ErrorIs(t, run("scheduler{", f, nil), relock.ErrName)

		release := r.Hold("scheduler") // and WithWait is over again and again
		ended := make(chan error, 1)
		go func() { ended <- run("scheduler", f, nil) }()
		time.Sleep(time.Minute)
		release()
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, all.running.Load())
		require.NoError(t, s.Close(t.Context()))
		require.ErrorIs(t, <-ended, relock.ErrClosed)
		require.Zero(t, all.running.Load())
	})
}
