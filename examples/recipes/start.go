package recipes

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// start returns a client and a session for a single server, which need not be there yet.
func start(ctx context.Context, option rueidis.ClientOption, opts ...relock.SessionOption) (
	rueidis.Client, *relock.Session, error) {
	option.ForceSingleClient = true
	client, err := rueidis.NewClient(option)
	if client == nil {
		return nil, nil, err // an option is wrong
	}
	if err != nil {
		log.Printf("starting without Redis: %v", err)
	}
	session, err := relock.NewSession(ctx, client, append(opts, relock.WithBackgroundStart())...)
	if err != nil {
		client.Close() // an option is wrong
		return nil, nil, err
	}
	return client, session, nil
}

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
