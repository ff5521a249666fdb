package relock

import (
	"context"
	"sync"
	"time"
)

// Contexts for calls of rueidis.
//
// As long as one goroutine at a time uses a connection, rueidis sends its command and
// reads the reply on that very goroutine. That takes little more than half as long as
// the way by two goroutines of the connection, which rueidis starts, and never ends,
// once calls overlap or a call has a context that can be cancelled and has no
// deadline. A context with a deadline does not start them. But when it passes on the
// caller's goroutine, rueidis closes the connection, which other users of the client
// share, and until then such a call cannot be cancelled. Therefore:
//
//   - The deadline of a caller's context is never passed on. If that can be cancelled,
//     the goroutines are the price.
//   - Calls that only the end of a lease or of the session would cut short have a
//     deadline, patience, so late that a connection without a reply is of no use to
//     anybody. For so long the end of a session may have to wait.
//   - A call that must not last that long, because the lease is short, has none; nor has
//     one that follows a call without an answer, lest a slow network never gets one.
const (
	patience      = 3 * time.Second
	patienceLeast = time.Second
)

// patient returns the deadline of a call that starts now and may last for d, if it is
// to have one.
func (p *protocol) patient(d time.Duration) (deadline time.Time, ok bool) {
	if d < patienceLeast || !p.reachable() {
		return time.Time{}, false
	}
	return time.Now().Add(d), true
}

// ioCtx is the context of a Redis call that must not be bound by its caller's
// context, only by its own cancel. Values are the caller's.
type ioCtx struct {
	context.Context
	proto     *protocol
	done      chan struct{}
	cancelled bool          // done is closed; guarded by the owner
	most      time.Duration // that a call may last; 0: no deadline
}

var ioCtxs = sync.Pool{New: func() any { return &ioCtx{done: make(chan struct{})} }}

func newIOCtx(values context.Context) *ioCtx {
	c := ioCtxs.Get().(*ioCtx)
	c.Context = values
	return c
}

// free takes c back once no call uses it.
func (c *ioCtx) free() {
	if !c.cancelled {
		c.Context, c.most = nil, 0
		ioCtxs.Put(c)
	}
}

func (c *ioCtx) cancel() {
	if !c.cancelled {
		c.cancelled = true
		close(c.done)
	}
}

// bound gives the next call, of p, the deadline of one that may last for d.
func (c *ioCtx) bound(p *protocol, d time.Duration) {
	c.proto, c.most = p, min(d, patience)
}

// Deadline returns that of a call which starts now.
func (c *ioCtx) Deadline() (time.Time, bool) {
	if c.most == 0 {
		return time.Time{}, false
	}
	return c.proto.patient(c.most)
}

func (c *ioCtx) Done() <-chan struct{} { return c.done }
func (c *ioCtx) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// bounded returns a context for one call that starts now. It ends after d, or when stop
// is called, or when the session stops.
func (s *Session) bounded(d time.Duration) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(s.ioCtx)
	timer := time.AfterFunc(d, cancel)
	return &timedCtx{ctx, s.proto, min(d, patience)}, func() { timer.Stop(); cancel() }
}

// timedCtx is a context with the deadline of a call that starts now.
type timedCtx struct {
	context.Context
	proto *protocol
	most  time.Duration
}

func (c *timedCtx) Deadline() (time.Time, bool) { return c.proto.patient(c.most) }

// bounded returns a context that ends after d without having a deadline.
func bounded(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// noDeadline is a caller's context without its deadline. Its end still comes through
// Done.
type noDeadline struct{ context.Context }

func (noDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// ioFor returns the context for rueidis of a call whose caller's is ctx. One that has
// no end is given that of the session.
func (s *Session) ioFor(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return s.callCtx
	}
	if _, ok := ctx.Deadline(); ok {
		return noDeadline{ctx}
	}
	return ctx
}
