package recipes

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// snowflake calls work with a generator of ids that no other process makes: 41 bits of time (ms),
// 10 bits of a worker id, 12 bits of a count.
func snowflake(
	ctx context.Context, session *relock.Session,
	work func(ctx context.Context, newID func() (int64, error)) error,
) error {
	return relock.Do(ctx, session.Semaphore("snowflake", 1024), func(ctx context.Context) error {
		hold, acquired := relock.HoldOf(ctx), time.Now()
		var mu sync.Mutex
		var last int64          // time and count of the last id
		time.Sleep(time.Second) // the clock of the last process with this worker id may be ahead
		return work(ctx, func() (int64, error) {
			mu.Lock()
			defer mu.Unlock()
			now := acquired.Add(time.Since(acquired)) // by a clock that does not step back
			if until, held := hold.Deadline(); !held || !now.Before(until) {
				return 0, cmp.Or(hold.Err(), relock.ErrLost)
			}
			last = max(last+1, now.UnixMilli()<<12) // beyond 4096 per ms, ids borrow from the next
			return last>>12<<22 | int64(hold.Slot())<<12 | last&4095, nil
		})
	})
}
