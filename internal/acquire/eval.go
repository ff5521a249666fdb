package acquire

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// ErrNoGuard: a hold of which Redis cannot tell, in one script, whether it has the lock.
var ErrNoGuard = fmt.Errorf("%w: Eval is of the hold of a Mutex, a FairMutex, the write side of an RWMutex, or a Semaphore; "+
	"of a Group, use that of a member", lockerr.ErrOption)

const opEval = "eval"

// Eval runs a script of the caller if h has the lock in Redis. Until the reply has come, the lease of
// h is neither passed on nor kept: a script that comes late would run under the next hold.
func (l *Lock) Eval(ctx context.Context, of Held, script string, keys, args []string) rueidis.RedisResult {
	fails := func(errs ...error) rueidis.RedisResult {
		return rueidis.NewErrorResult(lockerr.New(opEval, l.Name(), errs...))
	}
	if l.kind.Joins() {
		return fails(ErrNoGuard)
	}
	h := of.(*local.Hold)
	on := lease.Of(h.Lease)
	if key, elsewhere := l.n.Proto.InOtherSlot(&on.Ref, keys); elsewhere {
		return fails(fmt.Errorf("%w: the key %q is in another slot of the cluster than the lock: give both the same hash tag",
			lockerr.ErrOption, key))
	}
	if !l.n.Calls.Begin() {
		return fails(lockerr.ErrClosed)
	}
	defer l.n.Calls.End()
	if ctx.Err() != nil {
		return rueidis.NewErrorResult(lockerr.Ended(opEval, l.Name(), ctx, nil))
	}
	on.Late.Add(1) // before the state is read, which an Unlock sets before it reads this
	if l.refresh(h, l.n.Clock.Now()); h.State() != local.Live {
		on.Late.Add(-1)
		return fails(cmp.Or(h.Cause(), lockerr.ErrNotHeld))
	}
	bounded, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(l.n.Closing, stop)()
	sent := l.n.Clock.Now()
	r := l.n.Proto.Guarded(bounded, &on.Ref, script, keys, args)
	err := r.Error()
	code, answered := transport.Code(err)
	if answered || err == nil || rueidis.IsRedisNil(err) {
		on.Late.Add(-1)
	}
	switch {
	case code == wire.CodeLost:
		l.n.Lost(on, goneCause(on))
		return fails(cmp.Or(h.Cause(), lockerr.ErrNotHeld))
	case answered || err == nil || rueidis.IsRedisNil(err):
		return r
	case l.n.Closed():
		return fails(lockerr.ErrClosed, lockerr.ErrUnavailable)
	case ctx.Err() != nil:
		return rueidis.NewErrorResult(lockerr.Unavailable(opEval, l.Name(), ctx, err))
	}
	return rueidis.NewErrorResult(unavailable(opEval, l.Name(), err, time.Duration(l.n.Clock.Now()-sent)))
}
