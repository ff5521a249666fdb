package main

import (
	"context"
	"log"

	"github.com/relock-go/relock"
)

// observe tells of each new leader until ctx ends. Any process can do that, whether it wants to lead or not.
//
// What it says may be old when it arrives: a process that sends a request to the leader sends the token with it, and a leader
// refuses the requests of another term. The token grows from leader to leader, and stays while one leads.
func observe(ctx context.Context, session *relock.Session, log *log.Logger) {
	for state, err := range session.Watch(ctx, lock) {
		switch {
		case err != nil:
			log.Printf("cannot ask: %v", err)
		case len(state.Holders) == 0:
			log.Print("nobody leads")
		default: // the label of the leader's session is its address
			log.Printf("%s leads, token %d", state.Holders[0].Label, state.Token)
		}
	}
}
