package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

const (
	lock  = "lock"        // at the key leader:lock
	store = "leader:work" // hash: the number of steps, and the token of the last one
)

// worker is one of the processes that could do the work.
type worker struct {
	client  rueidis.Client
	session *relock.Session
	pace    time.Duration
	term    time.Duration // for which it leads at least: then it steps down when another one waits
	log     *log.Logger
}

// work leads whenever it can, until ctx ends.
func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		err := relock.Do(ctx, w.session.Mutex(lock), w.lead) // waits until it is the leader
		if ctx.Err() != nil {
			return // and has unlocked: the next leader need not wait for the lease to end
		}
		w.log.Printf("stopped: %v", err)
		select {
		case <-time.After(w.pace / 10): // not at once again, if Redis refuses for good
		case <-ctx.Done():
		}
	}
}

var errTermOver = errors.New("the term is over, and another worker waits")

// lead works until its term is over and another one waits, or ctx ends. That does when the lock is lost: forced open, gone from Redis,
// or not renewed in time because Redis or the network does not answer.
func (w *worker) lead(ctx context.Context) error {
	token := relock.Token(ctx)
	w.log.Printf("leading, token %d", token)
	term, wanted := time.After(w.term), (<-chan struct{})(nil)
	for {
		n, err := w.step(ctx, token)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			w.log.Printf("cannot work: %v", err) // Redis is away; we lead until the lock is lost
		default:
			w.log.Printf("step %d, token %d", n, token)
		}
		select {
		case <-time.After(w.pace):
		case <-term:
			wanted = relock.HoldOf(ctx).Wanted()
		case <-wanted:
			return errTermOver
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// The work is done where tokens are checked: a leader that was frozen between a look at
// ctx and this call comes too late, and is refused.
const script = `
if tonumber(redis.call('HGET', KEYS[1], 'token') or 0) > tonumber(ARGV[1]) then
  return redis.error_reply('STALE another has been leader since')
end
redis.call('HSET', KEYS[1], 'token', ARGV[1])
return redis.call('HINCRBY', KEYS[1], 'steps', 1)`

// step does a step of the work and returns its number.
func (w *worker) step(ctx context.Context, token int64) (int64, error) {
	n, err := w.client.Do(ctx, w.client.B().Eval().Script(script).Numkeys(1).Key(store).
		Arg(strconv.FormatInt(token, 10)).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("step: %w", err)
	}
	return n, nil
}
