package transport

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
)

// Settled is Inquire, repeated while the server answers with a transient error, such as BUSY
// or LOADING, and ctx has not ended.
func (c *Conn) Settled(ctx context.Context, words ...string) rueidis.RedisResult {
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		r := c.Inquire(ctx, words...)
		if _, refused := Code(r.Error()); !refused || !Transient(r.Error()) || ctx.Err() != nil {
			return r
		}
		timing.Pause(ctx, timing.Jitter(backoff))
	}
}

// Inquire sends a command that any server of the deployment can answer.
func (c *Conn) Inquire(ctx context.Context, words ...string) rueidis.RedisResult {
	if c.Client.Mode() != rueidis.ClientModeCluster {
		for {
			p := c.begin(&c.places.route)
			r, _ := c.send(ctx, p, p, p.rounds, nil, c.Client.B().Arbitrary(words...).Build(), nil)
			if c.observe(ctx, &r); r.Error() != errLeft {
				return r
			}
		}
	}
	return c.AnyNode(ctx, func(ctx context.Context, addr string, node rueidis.Client) rueidis.RedisResult {
		return c.Ask(ctx, addr, node, c.Client.B().Arbitrary(words...).Build())
	})
}

// AnyNode asks one node of a cluster after the other until one answers. A node may hang, so
// it waits only nodeTimeout before it asks the next one as well, and then for all of them.
func (c *Conn) AnyNode(
	ctx context.Context, ask func(ctx context.Context, addr string, node rueidis.Client) rueidis.RedisResult,
) rueidis.RedisResult {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := c.Client.Nodes()
	addrs := slices.Collect(maps.Keys(nodes)) // in random order
	replies := make(chan rueidis.RedisResult, len(nodes))
	r := rueidis.NewErrorResult(errors.New("the client knows no node of the cluster"))
	for asked, replied := 0, 0; replied < len(nodes); {
		if asked < len(nodes) {
			addr := addrs[asked]
			asked++
			c.wg.Go(func() { replies <- ask(ctx, addr, nodes[addr]) })
		}
		select {
		case r = <-replies:
			replied++
			c.observe(ctx, &r)
			if r.NonRedisError() == nil {
				return r
			}
		case <-time.After(nodeTimeout):
		case <-ctx.Done():
			return rueidis.NewErrorResult(ctx.Err())
		}
	}
	return r
}

// Once sends one command to the node at addr, on a connection of its own, and closes that.
func (c *Conn) Once(ctx context.Context, addr string, cmd rueidis.Completed) rueidis.RedisResult {
	conn, release, err := c.Dedicate(ctx, addr)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	defer c.wg.Go(func() { // closing takes up to a second
		conn.Close()
		release()
	})
	return conn.Do(ctx, cmd)
}
