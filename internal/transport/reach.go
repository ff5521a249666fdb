package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// rueidis may block past ctx while it dials (whoever's call began that, and up to the dial
// timeout) or while its queue is full. A call that may block so is made by a goroutine, which
// is left behind when ctx ends. It ends with the dial, without sending anything, and the
// session's Close waits for it.
//
// The state of the subscription connection tells whether a call may block: it leads to the
// same server and is probed all the time. In a cluster it may lead to another node, and tells
// nothing; there pipelines, and calls that must end in time, are always sent by a goroutine.

// maxInFlight is the number of direct calls under way at which the client's queue counts as
// full. The queue has 1024 slots by default, and a call whose ctx has ended keeps its slot
// until the reply comes.
const maxInFlight = 512

// reachable reports whether a call would be sent at once.
func (c *Conn) reachable() bool {
	return c.Slots == nil && c.up.Load() && !c.doubtful.Load() && c.inFlight.Load() < maxInFlight
}

// admit counts a call as direct if it will be sent at once, and reports whether it did. It
// counts before it compares, so that concurrent calls cannot pass the limit together.
func (c *Conn) admit() bool {
	if !c.up.Load() || c.doubtful.Load() {
		return false
	}
	if c.inFlight.Add(1) <= maxInFlight {
		return true
	}
	c.inFlight.Add(-1)
	return false
}

// observe records whether a call was answered, and replaces errors that mislead the caller.
// The client dials with the context of the first call, and returns the error of that context
// to every call that waits for the connection; for a call whose own context has not ended it
// must not look like the end of that.
func (c *Conn) observe(ctx context.Context, r *rueidis.RedisResult) {
	err := r.NonRedisError()
	if doubtful := err != nil; doubtful != c.doubtful.Load() {
		c.doubtful.Store(doubtful)
	}
	switch {
	case err == nil:
		if c.closedSince.Load() != 0 {
			c.closedSince.Store(0)
		}
	case IsContextError(err) && ctx.Err() == nil:
		*r = rueidis.NewErrorResult(fmt.Errorf("no connection: %v", err))
	case err == rueidis.ErrClosing && c.replacing():
		*r = rueidis.NewErrorResult(errReplaced)
	}
}

var errReplaced = errors.New("the client has replaced the connection")

// replacedFor is how long the client may return ErrClosing without being closed.
const replacedFor = 2 * time.Second

// replacing reports whether the client, which returned ErrClosing, may have closed only one
// connection: Sentinel has named another primary, or a node has left the cluster.
func (c *Conn) replacing() bool {
	if c.Client.Mode() == rueidis.ClientModeStandalone {
		return false
	}
	now := int64(time.Since(c.start)) + 1
	c.closedSince.CompareAndSwap(0, now)
	return now-c.closedSince.Load() < int64(replacedFor)
}

// IsContextError reports whether err is the error of a context that has ended.
func IsContextError(err error) bool {
	return errors.Is(err, context.Canceled) || err == context.DeadlineExceeded
}

// prompt reports whether a call under ctx must end with it whatever rueidis does, and it is not
// known whether rueidis will block.
func (c *Conn) prompt(ctx context.Context) bool {
	x, ok := ctx.(*Context)
	return ok && x.Prompt && c.Slots != nil
}

// do sends one command.
func (c *Conn) do(ctx context.Context, cmd rueidis.Completed) (r rueidis.RedisResult) {
	if !c.prompt(ctx) && c.admit() {
		r = c.Client.Do(ctx, cmd)
		c.inFlight.Add(-1)
	} else {
		replies := make(chan rueidis.RedisResult, 1)
		c.wg.Go(func() { replies <- c.Client.Do(ctx, cmd) })
		select {
		case r = <-replies:
		case <-ctx.Done():
			r = rueidis.NewErrorResult(ctx.Err())
		}
	}
	c.observe(ctx, &r)
	return r
}

// Ask sends one command to a node. It ends with ctx.
func (c *Conn) Ask(ctx context.Context, node rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult {
	return c.detached(ctx, node.DoMulti, rueidis.Commands{cmd})[0]
}

// doMulti sends commands, at least one, in one pipeline.
func (c *Conn) doMulti(ctx context.Context, cmds ...rueidis.Completed) (rs []rueidis.RedisResult) {
	if c.Slots == nil && c.admit() {
		rs = c.Client.DoMulti(ctx, cmds...)
		c.inFlight.Add(-1)
	} else {
		rs = c.detached(ctx, c.Client.DoMulti, cmds)
	}
	for i := range rs {
		c.observe(ctx, &rs[i])
	}
	return rs
}

// detached sends commands from a goroutine that is left behind when ctx ends.
func (c *Conn) detached(ctx context.Context, send func(context.Context, ...rueidis.Completed) []rueidis.RedisResult,
	cmds []rueidis.Completed) (rs []rueidis.RedisResult) {
	n := len(cmds) // the goroutine owns cmds
	replies := make(chan []rueidis.RedisResult, 1)
	c.wg.Go(func() { replies <- send(ctx, cmds...) })
	select {
	case rs = <-replies:
	case <-ctx.Done():
		rs = make([]rueidis.RedisResult, n)
		for i := range rs {
			rs[i] = rueidis.NewErrorResult(ctx.Err())
		}
	}
	return rs
}
