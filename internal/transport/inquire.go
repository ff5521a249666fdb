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

// Inquire sends a command that any server of the deployment can answer. It uses a connection
// of the pool, so that a ctx that can be cancelled does not put the shared connection into
// its slower mode; see Patience.
func (c *Conn) Inquire(ctx context.Context, words ...string) rueidis.RedisResult {
	ctx, stop := c.watchPool(ctx, c.Client, "", poolTimeout)
	defer stop()
	var r rueidis.RedisResult
	if c.Client.Mode() != rueidis.ClientModeCluster {
		r = c.do(NoDeadline{ctx}, c.Client.B().Arbitrary(words...).Blocking())
	} else {
		r = c.AnyNode(ctx, func(ctx context.Context, node rueidis.Client) rueidis.RedisResult {
			return c.Ask(ctx, node, c.Client.B().Arbitrary(words...).Blocking())
		})
	}
	if err := r.NonRedisError(); err != nil {
		return rueidis.NewErrorResult(c.poolError(ctx, err))
	}
	return r
}

// AnyNode asks one node of a cluster after the other until one answers. A node may hang, so
// it waits only nodeTimeout before it asks the next one as well, and then for all of them. It
// gives up no wait before that: rueidis makes its pool larger for each that is ended.
func (c *Conn) AnyNode(
	ctx context.Context, ask func(context.Context, rueidis.Client) rueidis.RedisResult,
) rueidis.RedisResult {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := slices.Collect(maps.Values(c.Client.Nodes())) // in random order
	replies := make(chan rueidis.RedisResult, len(nodes))
	r := rueidis.NewErrorResult(errors.New("the client knows no node of the cluster"))
	for asked, replied := 0, 0; replied < len(nodes); {
		if asked < len(nodes) {
			node := nodes[asked]
			asked++
			c.wg.Go(func() { replies <- ask(NoDeadline{ctx}, node) })
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

// Once sends one command on a dedicated connection and closes that.
func (c *Conn) Once(ctx context.Context, node rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult {
	conn, release, err := c.Dedicate(ctx, node)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	defer c.wg.Go(func() { // closing takes up to a second
		conn.Close()
		release()
	})
	return conn.Do(ctx, cmd)
}
