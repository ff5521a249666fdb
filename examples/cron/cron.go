package main

import (
	"context"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

const (
	job  = "report"    // the name of the job, and of its lock
	done = "cron:done" // sorted set: the last tick that each job is done for
)

// host is one of the hosts that have the timetable.
type host struct {
	client  rueidis.Client
	session *relock.Session
	job     func(ctx context.Context, tick time.Time) error
	log     *log.Logger
}

// cron does the job at every multiple of a duration until ctx ends. Ticks for which every
// host is too late, because the job takes longer or the hosts are busy, are left out.
func (h *host) cron(ctx context.Context, every time.Duration) {
	for {
		tick := time.Now().Truncate(every).Add(every)
		select {
		case <-time.After(time.Until(tick)):
		case <-ctx.Done():
			return
		}
		// Do waits for the lock, so a host takes over when the one that has it dies.
		err := relock.Do(ctx, h.session.Mutex(job), func(ctx context.Context) error {
			return h.once(ctx, tick)
		})
		if err != nil && ctx.Err() == nil {
			h.log.Printf("%s: %v", at(tick), err) // the next host that gets the lock tries again
		}
	}
}

// once does the job for a tick unless it is done. It is called under the lock.
//
// The lock alone would not do: a host that waited for it, or whose clock is behind, gets
// it after the job is done. So the last tick that is done is kept, and read under the lock.
// Nor would the record alone: two hosts would read it before either has written.
//
// If the lock is lost, ctx ends, nothing is recorded, and another host does the job again.
// So the job may begin twice, and must bear that. That cannot be avoided: a host may die
// between the job's last effect and the record.
func (h *host) once(ctx context.Context, tick time.Time) error {
	last, err := h.client.Do(ctx, h.client.B().Zscore().Key(done).Member(job).Build()).AsFloat64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	switch now := float64(tick.UnixMilli()); {
	case last == now:
		h.log.Printf("%s: done already", at(tick))
		return nil
	case last > now:
		h.log.Printf("%s: too late, a later one is done", at(tick))
		return nil
	}
	h.log.Printf("%s: started", at(tick))
	if err := h.job(ctx, tick); err != nil {
		return err
	}
	// GT: a host that was paused here, and comes late, does not set the record back.
	if err := h.client.Do(ctx, h.client.B().Zadd().Key(done).Gt().ScoreMember().
		ScoreMember(float64(tick.UnixMilli()), job).Build()).Error(); err != nil {
		return err
	}
	h.log.Printf("%s: done", at(tick))
	return nil
}

func at(tick time.Time) string { return tick.Format("15:04:05.000") }
