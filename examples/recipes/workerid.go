package recipes

import (
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// snowflake runs work with a generator of ids that no other process makes: 41 bits of time (ms), 10 bits of a worker id, 12
// bits of a count. At most 1024 processes have a worker id at a time.
func snowflake(ctx context.Context, session *relock.Session, work func(ctx context.Context, newID func() (int64, error)) error) error {
	return relock.Do(ctx, session.Semaphore("snowflake", 1024), func(ctx context.Context) error {
		hold := relock.HoldOf(ctx)
		var mu sync.Mutex
		var last int64 // time and count of the last id
		acquired := time.Now()
		time.Sleep(time.Second) // no host's clock is further ahead: the last process with this worker id has made no later ids
		return work(ctx, func() (int64, error) {
			mu.Lock()
			defer mu.Unlock()
			until, held := hold.Deadline()
			if now := acquired.Add(time.Since(acquired)); !held || !now.Before(until) { // by a clock that does not step back
				return 0, context.Cause(ctx)
			} else if next := now.UnixMilli() << 12; next > last {
				last = next
			} else {
				last++ // more than 4096 in a millisecond run ahead of the time
			}
			return last>>12<<22 | int64(hold.Slot())<<12 | last&4095, nil
		})
	})
}
