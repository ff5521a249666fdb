package transport

import (
	"context"
	"time"
)

// Contexts of calls, which rueidis never sees: reach.go says why.

// Patience is how long a call waits for an answer that neither its caller nor a lease bounds.
const Patience = 3 * time.Second

// Context is the context of Redis calls that only Cancel ends, not its caller's context. It
// has the caller's values.
type Context struct {
	context.Context // has the values
	conn            *Conn
	ended           chan struct{}
	cancelled       bool // ended is closed; guarded by the owner's mutex
}

// NewContext returns a context with these values. Free takes it back. Sessions share none: a
// channel made in one bubble of testing/synctest must not be used in another.
func (c *Conn) NewContext(values context.Context) *Context {
	io, _ := c.contexts.Get().(*Context)
	if io == nil {
		io = Background()
	}
	io.Context, io.conn = values, c
	return io
}

// Background returns a context without values, which is not to be freed.
func Background() *Context {
	return &Context{Context: context.Background(), ended: make(chan struct{})}
}

// Free takes c back. No call may use it any more.
func (c *Context) Free() {
	if !c.cancelled {
		c.Context = nil
		c.conn.contexts.Put(c)
	}
}

// Cancel ends c. The caller must hold the owner's mutex; further calls do nothing.
func (c *Context) Cancel() {
	if !c.cancelled {
		c.cancelled = true
		close(c.ended)
	}
}

// Deadline reports that there is none: only Cancel ends c.
func (c *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

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

// ForCaller returns the context that bounds a call of a caller's ctx. A ctx that never ends is
// replaced by the session's.
func ForCaller(ctx context.Context, session *Context) context.Context {
	if ctx.Done() == nil {
		return session
	}
	return ctx
}
