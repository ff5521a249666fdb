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

// Wanted returns a channel that is closed once somebody else, in this process or another, waits for
// the lock in Lock or Acquire, or in a TryLock with [WithKeep]: a holder may then stop early. It
// closes within 2 s even if a message is lost, and stays closed if the waiter gives up. Redisson's
// waiters are not noticed. Of a [Semaphore], every process with a permit is told; of more than 100
// permits, those whose leases end first. For readers, a [Group] and a [Redlock] it is nil. Wanted
// does not block.
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

// Watch yields the state of a lock, as [Session.Inspect] returns it: now, and whenever its holders
// or token have changed, until ctx or the loop ends. It asks Redis about once a second, and may
// miss a shorter change.
//
// An error of Redis, or [ErrNotLock], is yielded with a zero State, once for each failed request,
// and does not end the loop. [ErrName] and [ErrClosed] do; the end of ctx does, without an error.
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
