package recipes

import (
	"context"
	"log"
	"time"

	"github.com/relock-go/relock"
)

// nightly is called at the same time on every host, by a timetable. One of them does the job.
func nightly(ctx context.Context, session *relock.Session, job func(context.Context) error) error {
	lock := session.Mutex("nightly", relock.WithMinHold(10*time.Minute))
	ran, err := relock.TryDo(ctx, lock, job)
	if !ran && err == nil {
		log.Print("nightly: another host does it, or has done it")
	}
	return err
}
