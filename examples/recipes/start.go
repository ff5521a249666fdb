package recipes

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// connect tries to connect once a second until Redis is there or ctx ends.
func connect(ctx context.Context, option rueidis.ClientOption, opts ...relock.SessionOption) (
	rueidis.Client, *relock.Session, error) {
	for {
		client, err := rueidis.NewClient(option)
		if err == nil {
			var session *relock.Session
			if session, err = relock.NewSession(ctx, client, opts...); err == nil {
				return client, session, nil
			}
		}
		if client != nil {
			client.Close()
		}
		if errors.Is(err, relock.ErrOption) {
			return nil, nil, err // waiting does not help
		}
		log.Printf("cannot use Redis yet: %v", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, nil, errors.Join(ctx.Err(), err)
		}
	}
}
