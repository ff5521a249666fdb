package recipes

import (
	"context"
	"log"
	"time"

	"github.com/relock-go/relock"
)

// lead works whenever this process is the leader, until ctx ends.
func lead(ctx context.Context, session *relock.Session, work func(ctx context.Context, term int64) error) {
	for ctx.Err() == nil {
		err := relock.Do(ctx, session.Mutex("leader"), func(ctx context.Context) error {
			return work(ctx, relock.Token(ctx)) // returns when ctx ends: the lock is lost
		})
		if ctx.Err() != nil {
			return
		}
		log.Printf("not the leader: %v", err)
		select {
		case <-time.After(time.Second): // not at once again, if Redis refuses
		case <-ctx.Done():
		}
	}
}

// follow calls f with the address of the leader, and with its term, which grows from leader to leader: now, and again
// whenever they change, until ctx ends. Without a leader the address is empty.
func follow(ctx context.Context, session *relock.Session, f func(address string, term int64)) {
	for state, err := range session.Watch(ctx, "leader") {
		switch {
		case err != nil:
			log.Printf("not known who leads: %v", err) // Redis is away; Watch goes on, unless the session is closed
		case len(state.Holders) == 0:
			f("", 0)
		default:
			f(state.Holders[0].Label, state.Token)
		}
	}
}
