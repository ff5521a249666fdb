package recipes

import (
	"context"
	"log"
	"time"

	"github.com/relock-go/relock"
)

// lead calls work whenever this process is the leader, until ctx ends. The context that work gets
// ends when the process stops being the leader: work must return then.
func lead(
	ctx context.Context, session *relock.Session,
	work func(ctx context.Context, term int64) error,
) {
	for ctx.Err() == nil {
		err := relock.Do(ctx, session.Mutex("leader"), func(ctx context.Context) error {
			return work(ctx, relock.Token(ctx))
		})
		if ctx.Err() != nil {
			return
		}
		log.Printf("not leading now: %v", err)
		select {
		case <-time.After(time.Second): // Do may fail at once, again and again
		case <-ctx.Done():
		}
	}
}

// follow calls f with the address and the term of the leader: now, and whenever they change, until
// ctx ends. While there is no leader, the address is empty.
func follow(ctx context.Context, session *relock.Session, f func(address string, term int64)) {
	for state, err := range session.Watch(ctx, "leader") {
		switch {
		case err != nil: // Watch goes on, unless the session is closed
			log.Printf("cannot tell who leads: %v", err)
		case len(state.Holders) == 0:
			f("", 0)
		default:
			f(state.Holders[0].Label, state.Token)
		}
	}
}
