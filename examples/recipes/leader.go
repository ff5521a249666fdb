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

// leader returns where the leader is, and its term, which grows from leader to leader. Without
// a leader the address is empty.
func leader(ctx context.Context, session *relock.Session) (address string, term int64, err error) {
	state, err := session.Inspect(ctx, "leader")
	if err != nil || len(state.Holders) == 0 {
		return "", 0, err
	}
	return state.Holders[0].Label, state.Token, nil
}
