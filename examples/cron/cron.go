package main

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/relock-go/relock"
)

const name = "report" // of the job, and of its lock

// host is one of the hosts that have the timetable.
type host struct {
	session *relock.Session
	every   time.Duration // the period
	job     func(ctx context.Context, tick time.Time) error
	log     *log.Logger
}

// cron does the job at every multiple of the period until ctx ends. Ticks for which every
// host is too late, because the job takes longer or the hosts are busy, are left out.
func (h *host) cron(ctx context.Context) {
	for {
		tick := time.Now().Truncate(h.every).Add(h.every)
		select {
		case <-time.After(time.Until(tick)):
		case <-ctx.Done():
			return
		}
		if late := time.Since(tick); late > h.every/10 {
			h.log.Printf("%s: too late by %v", at(tick), late)
			continue
		}
		h.once(ctx, tick)
	}
}

// once does the job for a tick, unless another host does it or has done it.
//
// WithMinHold keeps the lock for half a period, however short the job is: a host whose clock
// is behind finds it taken.
//
// WithWait makes the other hosts wait, but not until the lock is free after the job. So a waiting
// host gets it only if the host that has it dies or cannot reach Redis. It takes over for the same
// tick if the lease is shorter than the wait; otherwise the job is next done for a later tick.
//
// A host begins at most a tenth of the period late, and waits for a fifth. To end its wait within the
// half for which the first host keeps the lock, its clock may differ by another fifth.
//
// The job must bear to begin twice, since its host can be lost in the middle. A job that fails
// is not tried again before the next tick. A host that is paused between the lock and the job does
// it late: what must not be done twice at any price needs a record where it is done.
func (h *host) once(ctx context.Context, tick time.Time) {
	lock := h.session.Mutex(name, relock.WithMinHold(h.every/2), relock.WithWait(h.every/5))
	err := relock.Do(ctx, lock, func(ctx context.Context) error {
		h.log.Printf("%s: started", at(tick))
		if err := h.job(ctx, tick); err != nil {
			return err
		}
		h.log.Printf("%s: done", at(tick))
		return nil
	})
	switch {
	case errors.Is(err, relock.ErrTaken):
		h.log.Printf("%s: another host does it, or has done it", at(tick))
	case err != nil && ctx.Err() == nil:
		h.log.Printf("%s: %v", at(tick), err)
	}
}

func at(tick time.Time) string { return tick.Format("15:04:05.000") }
