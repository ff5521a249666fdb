// Example has two processes with the same jobs: each tick of the report runs in one of them, and the leader, which
// one of them is, says so.
//
//	go run ./example                          # both, on a Redis in memory
//	go run ./example -redis localhost:6379    # one; run it in several terminals
package main

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/relock-go/relock"
	relockgocron "github.com/relock-go/relock/adapters/gocron"
	"github.com/relock-go/relock/adapters/internal/demo"
)

func main() { demo.Main("gocron", run) }

func run(ctx context.Context, p demo.Process) error {
	// The clocks of hosts differ by less than half a second, and the job is due every second.
	locker := relockgocron.NewLocker(p.Session, relock.WithMinHold(500*time.Millisecond))
	each, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	elector := relockgocron.NewElector(p.Session, "leader")
	defer elector.Close(context.WithoutCancel(ctx))
	leader, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		return err
	}

	_, err = each.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(func(ctx context.Context) {
		ctx = relockgocron.Context(ctx) // ends when the lock is lost
		log.Printf("report, token %d", relock.Token(ctx))
	}), gocron.WithName("report"))
	if err == nil {
		_, err = leader.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(func(ctx context.Context) {
			ctx, cancel := elector.Context(ctx) // ends when another leads
			defer cancel()
			log.Printf("leader, token %d", relock.Token(ctx))
		}), gocron.WithName("housekeeping"))
	}
	if err != nil {
		return err
	}
	each.Start()
	leader.Start()
	<-ctx.Done()
	return errors.Join(each.Shutdown(), leader.Shutdown())
}
