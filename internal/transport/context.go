package transport

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/timing"
)

// Contexts for calls of rueidis.
//
// While one goroutine at a time uses a connection, rueidis sends the command and reads the
// reply on that goroutine: the synchronous path. It takes little more than half as long as
// the pipelined path through two goroutines of the connection. rueidis switches a connection
// to the pipelined path, for good, once calls overlap or a call has a context that can be
// cancelled but has no deadline. A deadline does not make it switch; but when one passes on
// the synchronous path, rueidis closes the connection, which all users of the client share,
// and until then such a call cannot be cancelled. Therefore:
//
//   - A caller's deadline is never passed on. If its context can be cancelled, the pipelined
//     path is the price.
//   - A call that only the end of its lease or of the session would cut short gets a deadline,
//     Patience, so late that a connection without a reply is of no use to anybody. The end of
//     a session may have to wait for so long.
//   - A call that must end earlier, because its lease is short, gets no deadline; nor does one
//     that follows a call without an answer: on a slow network, deadlines would close one
//     connection after another.
const (
	// Patience is the latest deadline of a call on the shared connection.
	Patience    = 3 * time.Second
	minDeadline = time.Second
)

// A timed context has the deadline of a call on Conn that starts now and may last for Most.
type timed struct {
	context.Context
	Conn *Conn
	Most time.Duration
}

// Deadline returns the deadline of a call that starts now, if it should have one.
func (c *timed) Deadline() (deadline time.Time, ok bool) {
	if c.Most < minDeadline || !c.Conn.reachable() {
		return time.Time{}, false
	}
	return time.Now().Add(c.Most), true
}

// Bounded returns a context for one call that starts now. It ends after d, with stop, or with
// parent.
func (c *Conn) Bounded(parent context.Context, d time.Duration) (ctx context.Context, stop func()) {
	ctx, stop = timing.Within(parent, d)
	return &timed{ctx, c, min(d, Patience)}, stop
}

// BoundedFor is Bounded for a caller's ctx, whose deadline is never passed on.
func (c *Conn) BoundedFor(ctx context.Context, d time.Duration) (io context.Context, stop func()) {
	if ctx.Done() == nil {
		return c.Bounded(ctx, d)
	}
	ctx, stop = timing.Within(ctx, d)
	return NoDeadline{ctx}, stop
}

// Context is the context of Redis calls that only Cancel ends, not its caller's context. It
// has the caller's values.
type Context struct {
	timed
	ended     chan struct{}
	cancelled bool // ended is closed; guarded by the owner's mutex
}

// NewContext returns a context with these values. Free takes it back. Sessions share none: a
// channel made in one bubble of testing/synctest must not be used in another.
func (c *Conn) NewContext(values context.Context) *Context {
	io, _ := c.contexts.Get().(*Context)
	if io == nil {
		io = Background()
	}
	io.timed = timed{Context: values, Conn: c}
	return io
}

// Background returns a context without values, which is not to be freed.
func Background() *Context {
	return &Context{timed: timed{Context: context.Background()}, ended: make(chan struct{})}
}

// Free takes c back. No call may use it any more.
func (c *Context) Free() {
	if !c.cancelled {
		c.Context = nil
		c.Conn.contexts.Put(c)
	}
}

// Cancel ends c. The caller must hold the owner's mutex; further calls do nothing.
func (c *Context) Cancel() {
	if !c.cancelled {
		c.cancelled = true
		close(c.ended)
	}
}

// Bound sets the deadline of the following call on conn, which may last for d. It has none if the context with its
// values can end: then Cancel must be able to end the call.
func (c *Context) Bound(conn *Conn, d time.Duration) {
	c.Conn, c.Most = conn, min(d, Patience)
	if c.Context.Done() != nil {
		c.Most = 0
	}
}

// Done returns a channel that Cancel closes.
func (c *Context) Done() <-chan struct{} { return c.ended }

// Err returns context.Canceled after Cancel.
func (c *Context) Err() error {
	select {
	case <-c.ended:
		return context.Canceled
	default:
		return nil
	}
}

// NoDeadline hides the deadline of a caller's context. Done still reports its end.
type NoDeadline struct{ context.Context }

// Deadline reports that there is none.
func (NoDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// ForCaller returns the context to pass to rueidis for a caller's ctx. A ctx that never ends
// is replaced by the session's.
func ForCaller(ctx context.Context, session *Context) context.Context {
	if ctx.Done() == nil {
		return session
	}
	if _, ok := ctx.Deadline(); ok {
		return NoDeadline{ctx}
	}
	return ctx
}
