// Example has two processes with a server of asynq each. One of them also runs the scheduler, which
// enqueues two tasks for the same customer every second. They run one after the other, in either
// process.
//
//	go run ./example                          # both, on a Redis in memory
//	go run ./example -redis localhost:6379    # one; run it in several terminals
package main

import (
	"context"
	"log"
	"time"

	"github.com/hibiken/asynq"

	"github.com/relock-go/relock"
	relockasynq "github.com/relock-go/relock/adapters/asynq"
	"github.com/relock-go/relock/adapters/internal/demo"
)

func main() { demo.Main("asynq", run) }

func run(ctx context.Context, p demo.Process) error {
	redis := asynq.RedisClientOpt{Addr: p.Addr}
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency: 4, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 100 * time.Millisecond, DelayedTaskCheckInterval: 100 * time.Millisecond,
		IsFailure:      relockasynq.IsFailure(nil),
		RetryDelayFunc: relockasynq.RetryDelay(time.Second, nil),
	})
	mux := asynq.NewServeMux()
	mux.Use(relockasynq.Do(func(task *asynq.Task) relock.Locker {
		return p.Session.Mutex("customer:"+string(task.Payload()), relock.WithWait(time.Second))
	}))
	mux.HandleFunc("ship", func(ctx context.Context, task *asynq.Task) error {
		log.Printf("customer %s begins, token %d", task.Payload(), relock.Token(ctx))
		time.Sleep(300 * time.Millisecond)
		log.Printf("customer %s ends", task.Payload())
		return nil
	})
	if err := server.Start(mux); err != nil {
		return err
	}
	defer server.Shutdown()
	lock := p.Session.Mutex("scheduler")
	return relockasynq.RunScheduler(ctx, lock, func() (*asynq.Scheduler, error) {
		log.Print("schedules")
		s := asynq.NewScheduler(redis, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
		for range 2 {
			if _, err := s.Register("@every 1s", asynq.NewTask("ship", []byte("a"))); err != nil {
				return nil, err
			}
		}
		return s, nil
	})
}
