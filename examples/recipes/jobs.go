package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

// submit locks an account, and sends its job to a worker, which goes on with the lock.
func submit(
	ctx context.Context, session *relock.Session, account string,
	send func(ctx context.Context, account, ticket string) error,
) error {
	hold, err := session.Mutex(account).TryAcquire(ctx)
	if err != nil {
		return err // ErrTaken: a job of this account is under way
	}
	ticket, err := hold.Handoff(ctx, 10*time.Minute)
	if err != nil {
		return err
	}
	if err = send(ctx, account, ticket); err == nil {
		return nil
	}
	// Take the lock back to free it at once, unless a worker has got the ticket all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if hold, lost := session.Adopt(ctx, ticket); lost == nil {
		err = errors.Join(err, hold.Unlock(ctx))
	}
	return err
}

// handle does the job of one message. After an error the queue must deliver the message again after
// a delay, and deliver other messages in the meantime.
func handle(
	ctx context.Context, session *relock.Session, account, ticket string,
	job func(context.Context) error,
) (err error) {
	hold, err := session.Adopt(ctx, ticket)
	if errors.Is(err, relock.ErrLost) { // an earlier delivery has used the ticket, or it has expired
		hold, err = session.Mutex(account).TryAcquire(ctx)
	}
	if err != nil {
		return err // ErrTaken: don't wait, since a message behind this one may have the lock's ticket
	}
	defer func() { err = errors.Join(err, hold.Unlock(context.WithoutCancel(ctx))) }()
	ctx, cancel := hold.Context(ctx)
	defer cancel()
	return job(ctx)
}
