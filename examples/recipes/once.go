package recipes

import (
	"context"
	"log"
	"time"

	"github.com/relock-go/relock"
)

// nightly is called at the same time on every host, by a timetable. One of them does the job.
func nightly(
	ctx context.Context, session *relock.Session, job func(context.Context) error,
) error {
	lock := session.Mutex("nightly", relock.WithMinHold(10*time.Minute))
	ran, err := relock.TryDo(ctx, lock, job)
	if !ran && err == nil {
		log.Print("nightly: another host is doing it, or has done it")
	}
	return err
}

// report tries the job of a period, on one host or another, until it has succeeded once. Call it
// on every host when the period begins, with a ctx that ends with the period.
func report(
	ctx context.Context, session *relock.Session, period string, job func(context.Context) error,
) error {
	const get = `return redis.call('GET', KEYS[1]) or ''`
	const set = `return redis.call('SET', KEYS[1], ARGV[1])`
	record := []string{"{report}:done"} // the key of the last period that is done
	for {
		err := relock.Do(ctx, session.Mutex("{report}"), func(ctx context.Context) error {
			hold := relock.HoldOf(ctx)
			last, err := hold.Eval(ctx, get, record, nil).ToString()
			if err != nil || last >= period {
				return err
			}
			if err := job(ctx); err != nil {
				return err
			}
			return hold.Eval(ctx, set, record, []string{period}).Error()
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
		log.Printf("report of %s: %v; trying again", period, err)
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
	}
}
