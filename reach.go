package relock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// The client keeps its caller for as long as it dials, up to its dial timeout and
// whoever began that, and for as long as its queue is full, whatever becomes of the
// caller's ctx. So a call that may meet with that is made by a goroutine of its own,
// which is left behind when ctx ends. It ends with the dial, and sends nothing then;
// Close waits for it.
//
// The subscription connection tells when that is: it goes to the same server, and is
// looked at all the time. In a cluster it may go to another node, and says nothing.

// directMost is how many calls may be under way before the queue counts as full. It
// has 1024 places unless the client is set up otherwise, and a call whose ctx has
// ended keeps its place until the reply comes.
const directMost = 512

// reachable reports whether a call is sure to be sent at once.
func (p *protocol) reachable() bool {
	return !p.cluster && p.up.Load() && !p.doubt.Load() && p.direct.Load() < directMost
}

// admit counts a call that is sure to be sent at once, and reports whether it is one.
// Counted first, so that a crowd that asks at the same time is not let in together.
func (p *protocol) admit() bool {
	if !p.up.Load() || p.doubt.Load() {
		return false
	}
	if p.direct.Add(1) <= directMost {
		return true
	}
	p.direct.Add(-1)
	return false
}

// heard notes whether a call was answered. The client dials with the context of the
// call that came first, and gives the error of that context to all who wait for the
// connection: to those whose own context has not ended it is an error like any other.
func (p *protocol) heard(ctx context.Context, r *rueidis.RedisResult) {
	err := r.NonRedisError()
	if doubt := err != nil; doubt != p.doubt.Load() {
		p.doubt.Store(doubt)
	}
	switch {
	case err == nil:
		if p.closed.Load() != 0 {
			p.closed.Store(0)
		}
	case isEnd(err) && ctx.Err() == nil:
		*r = rueidis.NewErrorResult(fmt.Errorf("no connection: %v", err))
	case err == rueidis.ErrClosing && p.replacing():
		*r = rueidis.NewErrorResult(errReplaced)
	}
}

var errReplaced = errors.New("the client has replaced the connection")

// replacedFor is for how long the client may say that it is closed without being it.
const replacedFor = 2 * time.Second

// replacing reports whether the client, which says that it is closed, may have closed
// only a connection: Sentinel has named another primary, or a node has left the cluster.
func (p *protocol) replacing() bool {
	if p.client.Mode() == rueidis.ClientModeStandalone {
		return false
	}
	now := int64(time.Since(p.start)) + 1
	p.closed.CompareAndSwap(0, now)
	return now-p.closed.Load() < int64(replacedFor)
}

// isEnd reports whether err tells of the end of a context.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || err == context.DeadlineExceeded
}

// do sends one command.
func (p *protocol) do(ctx context.Context, cmd rueidis.Completed) (r rueidis.RedisResult) {
	if p.admit() {
		r = p.client.Do(ctx, cmd)
		p.direct.Add(-1)
	} else {
		c := make(chan rueidis.RedisResult, 1)
		p.wg.Go(func() { c <- p.client.Do(ctx, cmd) })
		select {
		case r = <-c:
		case <-ctx.Done():
			r = rueidis.NewErrorResult(ctx.Err())
		}
	}
	p.heard(ctx, &r)
	return r
}

// ask sends one command to a node.
func (p *protocol) ask(ctx context.Context, node rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult {
	return p.detached(ctx, node.DoMulti, rueidis.Commands{cmd})[0]
}

// doMulti sends commands, of which there must be one at least, in one pipeline.
func (p *protocol) doMulti(ctx context.Context, cmds ...rueidis.Completed) (rs []rueidis.RedisResult) {
	if p.admit() {
		rs = p.client.DoMulti(ctx, cmds...)
		p.direct.Add(-1)
	} else {
		rs = p.detached(ctx, p.client.DoMulti, cmds)
	}
	for i := range rs {
		p.heard(ctx, &rs[i])
	}
	return rs
}

// detached sends commands from a goroutine, which is left behind when ctx ends.
func (p *protocol) detached(ctx context.Context, send func(context.Context, ...rueidis.Completed) []rueidis.RedisResult,
	cmds []rueidis.Completed) (rs []rueidis.RedisResult) {
	n := len(cmds) // the goroutine owns cmds
	c := make(chan []rueidis.RedisResult, 1)
	p.wg.Go(func() { c <- send(ctx, cmds...) })
	select {
	case rs = <-c:
	case <-ctx.Done():
		rs = make([]rueidis.RedisResult, n)
		for i := range rs {
			rs[i] = rueidis.NewErrorResult(ctx.Err())
		}
	}
	return rs
}
