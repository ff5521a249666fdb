package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
// nothing; there a goroutine makes every call.

const (
	// maxInFlight is the number of direct calls under way at which the client's queue counts as
	// full. The queue has 1024 slots by default, and a call whose ctx has ended keeps its slot
	// until the reply comes.
	maxInFlight = 512

	replacedFor = 2 * time.Second // the client may return ErrClosing for so long without being closed
)

var errReplaced = errors.New("the client has replaced the connection")

// reachable reports whether a call would be sent at once.
func (c *Conn) reachable() bool {
	return c.Slots == nil && c.Up.Load() && !c.doubtful.Load() && c.inFlight.Load() < maxInFlight
}

// enter counts a call as direct if it will be sent at once, and reports whether it did.
func (c *Conn) enter() bool {
	direct := c.reachable()
	if direct {
		c.inFlight.Add(1)
	}
	return direct
}

// observe records whether a call was answered, and replaces errors that mislead the caller.
// The client dials with the context of the first call, and returns the error of that context
// to every call that waits for the connection; for a call whose own context has not ended it
// must not look like the end of that.
func (c *Conn) observe(ctx context.Context, r *rueidis.RedisResult) {
	err := r.NonRedisError()
	c.doubtful.Store(err != nil)
	if err != nil && c.Slots != nil {
		c.Slots.Refresh() // a replica may have taken over
	}
	switch {
	case err == nil:
		c.closedSince.Store(0)
	case IsContextError(err) && ctx.Err() == nil:
		*r = rueidis.NewErrorResult(fmt.Errorf("no connection: %v", err))
	case err == rueidis.ErrClosing && c.Client.Mode() != rueidis.ClientModeStandalone:
		// It may have closed only one connection: Sentinel has named another primary, or a node
		// has left the cluster.
		now := time.Now().UnixNano()
		c.closedSince.CompareAndSwap(0, now)
		if now-c.closedSince.Load() < int64(replacedFor) {
			*r = rueidis.NewErrorResult(errReplaced)
		}
	}
}

// IsContextError reports whether err is the error of a context that has ended.
func IsContextError(err error) bool {
	return errors.Is(err, context.Canceled) || err == context.DeadlineExceeded
}

// do sends one command.
func (c *Conn) do(ctx context.Context, cmd rueidis.Completed) (r rueidis.RedisResult) {
	if c.enter() {
		r = c.Client.Do(ctx, cmd)
		c.inFlight.Add(-1)
	} else {
		r = c.detached(ctx, c.Client.DoMulti, rueidis.Commands{cmd})[0]
	}
	c.observe(ctx, &r)
	return r
}

// Pipelined sends commands, at least one, in one pipeline.
func (c *Conn) Pipelined(ctx context.Context, cmds rueidis.Commands) (rs []rueidis.RedisResult) {
	if c.enter() {
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

// Ask sends one command to a node. It ends with ctx.
func (c *Conn) Ask(ctx context.Context, node rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult {
	return c.detached(ctx, node.DoMulti, rueidis.Commands{cmd})[0]
}

// detached sends commands from a goroutine that is left behind when ctx ends.
func (c *Conn) detached(ctx context.Context, send func(context.Context, ...rueidis.Completed) []rueidis.RedisResult,
	cmds rueidis.Commands) []rueidis.RedisResult {
	n := len(cmds) // the goroutine owns cmds
	replies := make(chan []rueidis.RedisResult, 1)
	c.wg.Go(func() { replies <- send(ctx, cmds...) })
	select {
	case rs := <-replies:
		return rs
	case <-ctx.Done():
		return failed(n, ctx.Err())
	}
}

// failed returns n results with an error.
func failed(n int, err error) []rueidis.RedisResult {
	return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, n)
}
