package main

import (
	"context"
	"log"
	"time"

	"github.com/relock-go/relock"
)

// term is who leads, by the state of the lock. There is no leader without an address.
type term struct {
	address string // the label of the leader's session
	token   int64  // grows from leader to leader, and stays while one leads
}

// leader asks Redis. The answer may be old when it arrives: whoever sends a request to the
// leader sends the token with it, and a leader refuses the requests of another term.
func leader(ctx context.Context, session *relock.Session) (term, error) {
	state, err := session.Inspect(ctx, lock)
	if err != nil || len(state.Holders) == 0 {
		return term{}, err
	}
	return term{state.Holders[0].Label, state.Token}, nil
}

// observe tells of each new leader until ctx ends. Any process can do that, whether it wants to lead or not.
func observe(ctx context.Context, session *relock.Session, pace time.Duration, log *log.Logger) {
	var last term
	for {
		now, err := leader(ctx, session)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Printf("cannot ask: %v", err)
		case now == last:
		case now.address == "":
			log.Print("nobody leads")
		default:
			log.Printf("%s leads, token %d", now.address, now.token)
		}
		if err == nil {
			last = now
		}
		select {
		case <-time.After(pace):
		case <-ctx.Done():
			return
		}
	}
}
