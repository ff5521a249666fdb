package relock

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lockerr"
)

// What tells of others: a holder hears that somebody waits for its lock, over the subscription of
// its session, and anybody can follow who holds one.

// Wanted returns a channel that is closed once somebody else, in this process or another, waits in
// Lock or Acquire for the lock, or in a TryLock with [WithKeep]. A holder that can stop early may
// then do so. It stays closed if the waiter gives up. A message tells it, or if that is lost the
// next poll of the waiter, within 2 s. Redisson's waiters are not noticed. Every process with a
// permit of a [Semaphore] is told; of more than 100 permits those whose leases end first. It is nil
// for readers, and for a [Group] and a [Redlock]. It does not block, and sends nothing.
func (h *Hold) Wanted() <-chan struct{} {
	if h == nil {
		return nil
	}
	return acquire.WantedOf(h.held)
}

const (
	watchEvery = time.Second     // how often Watch asks
	watchMost  = 3 * time.Second // how long one request may take
)

// Watch yields the state of the lock of that name, as [Session.Inspect] returns it: now, and again
// whenever its holders or its token have changed, until ctx or the loop ends. So a follower learns
// who leads. It asks Redis about once a second, while the loop waits for the next state, and starts
// no goroutine: a change that is over within a second may be missed, and the time that the loop's
// body takes is not counted.
//
// An error of Redis is yielded, with a zero State, once for each request that fails, and does not
// end the loop; nor does [ErrNotLock]. [ErrName] and [ErrClosed] do. The end of ctx ends the loop
// without an error.
func (s *Session) Watch(ctx context.Context, name string) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		var last *State
		for {
			st, err := s.inspectSoon(ctx, name)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, ErrName) || errors.Is(err, ErrClosed):
				yield(st, err)
				return
			case err != nil:
				if !yield(State{}, err) {
					return
				}
			case last == nil || changed(last, &st):
				last = &st
				if !yield(st, nil) {
					return
				}
			}
			select {
			case <-time.After(watchEvery):
			case <-ctx.Done():
				return
			case <-s.Done():
				yield(State{}, lockerr.New("watch", name, ErrClosed))
				return
			}
		}
	}
}

// inspectSoon is Inspect within watchMost.
func (s *Session) inspectSoon(ctx context.Context, name string) (State, error) {
	ctx, stop := context.WithTimeout(ctx, watchMost)
	defer stop()
	return s.Inspect(ctx, name)
}

// changed reports whether the holders or the token are others.
func changed(a, b *State) bool {
	same := slices.EqualFunc(a.Holders, b.Holders, func(x, y Holder) bool { return x.ID == y.ID })
	return !same || a.Mode != b.Mode || a.Token != b.Token
}
