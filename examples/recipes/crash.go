package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// resume acquires a lock that this program may have held when it crashed.
func resume(ctx context.Context, session *relock.Session, name string) (*relock.Hold, error) {
	const lease = 10 * time.Second // the same before and after the crash
	wait := lease + 5*time.Second
	lock := session.Mutex(name, relock.WithLease(lease), relock.WithWait(wait))
	hold, err := lock.Acquire(ctx)
	if !errors.Is(err, relock.ErrTaken) || ctx.Err() != nil {
		return hold, err
	}
	// The lease of a dead process is over by now. A living one has the lock.
	state, failed := session.Inspect(ctx, name)
	if failed == nil && len(state.Holders) > 0 {
		err = fmt.Errorf("%s is alive and has the lock: %w", state.Holders[0].Label, err)
	}
	return nil, err
}
