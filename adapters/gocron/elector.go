package relockgocron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
)

// An Elector makes one of several schedulers the leader, for [gocron.WithDistributedElector]. It
// campaigns in the background until [Elector.Close]: it waits for the lock, leads while it holds
// it, and waits again after a loss. It is safe for concurrent use, and must not be copied. When the
// leader's Elector is closed, the next one leads one message later; when its process dies, at the
// end of the lease ([relock.WithLease]).
type Elector struct {
	name  string
	stop  context.CancelCauseFunc
	ended chan struct{}                   // closed when the campaign has ended
	lead  atomic.Pointer[context.Context] // of the Do in which this process leads; after it, its cause says why not
}

// NewElector starts a campaign for the lock of that name, which must not be the name of a job with
// a Locker. It does not block. [Elector.IsLeader] reports a bad name or option.
func NewElector(s *relock.Session, name string, opts ...relock.LockOption) *Elector {
	ctx, stop := context.WithCancelCause(context.Background())
	e := &Elector{name: name, stop: stop, ended: make(chan struct{})}
	e.fail(relock.ErrNotHeld)
	go e.campaign(ctx, s.Mutex(name, opts...))
	return e
}

// Close ends the campaign, and leadership: shut the scheduler down first. It blocks until Redis has
// confirmed, for some 100 ms if Redis does not answer, or until ctx ends, whose error it returns
// then. It may be called again.
func (e *Elector) Close(ctx context.Context) error {
	e.stop(relock.ErrNotHeld)
	select {
	case <-e.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("relockgocron: closing the elector of %s: %w", e.name, ctx.Err())
	}
}

// IsLeader returns nil if this process leads. It looks at memory and the clock alone: from the
// local deadline of the lock on it returns an error, also if Redis hangs: [relock.ErrNotHeld], or
// what ended the last leadership or campaign, such as [relock.ErrLost] or [relock.ErrClosed].
func (e *Elector) IsLeader(context.Context) error {
	lead := *e.lead.Load()
	if until, ok := relock.HoldOf(lead).Deadline(); ok && time.Now().Before(until) {
		return nil
	}
	why := cmp.Or(context.Cause(lead), relock.ErrExpired) // which has not been noticed yet
	return fmt.Errorf("relockgocron: the elector of %s does not lead: %w", e.name, why)
}

// Context returns a context for a job that ends with ctx, and when this process leads no more, with
// the cause. [relock.HoldOf] knows the hold; the values of ctx are not in it. The job must call
// cancel.
func (e *Elector) Context(ctx context.Context) (job context.Context, cancel context.CancelFunc) {
	job, end := context.WithCancelCause(*e.lead.Load())
	unwatch := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	return job, func() { unwatch(); end(context.Canceled) }
}

// campaign leads whenever it can, until ctx ends or the session is closed.
func (e *Elector) campaign(ctx context.Context, lock *relock.Mutex) {
	defer close(e.ended)
	for ctx.Err() == nil {
		err := relock.Do(ctx, lock, func(lead context.Context) error {
			e.lead.Store(&lead)
			<-lead.Done()
			return nil
		})
		if ctx.Err() != nil || errors.Is(err, relock.ErrLost) || errors.Is(err, relock.ErrTaken) { // of WithWait
			continue
		}
		e.fail(err)
		if errors.Is(err, relock.ErrClosed) {
			return
		}
		select { // Redis refuses: not at once again
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// fail says why this process does not lead.
func (e *Elector) fail(err error) {
	ctx, end := context.WithCancelCause(context.Background())
	end(err)
	e.lead.Store(&ctx)
}
