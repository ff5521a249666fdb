package transport

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

var errNoNode = errors.New("the client knows no node of the cluster")

// Inquire sends commands, in one pipeline, that any server of the deployment can answer, and
// returns its answers. There is an error if it has not answered them all. Inquire uses a connection
// of the pool, so that a ctx that can be cancelled does not put the shared connection into its
// slower mode; see Patience.
func (c *Conn) Inquire(ctx context.Context, commands ...[]string) ([]rueidis.RedisResult, error) {
	ctx, stop := c.watchPool(ctx, c.Client, "", poolTimeout)
	defer stop()
	build := func() rueidis.Commands {
		cmds := make(rueidis.Commands, len(commands))
		for i, words := range commands {
			cmds[i] = c.Client.B().Arbitrary(words...).Blocking()
		}
		return cmds
	}
	var rs []rueidis.RedisResult
	if c.Client.Mode() != rueidis.ClientModeCluster {
		rs = c.Pipelined(NoDeadline{ctx}, build())
	} else {
		rs = c.AnyNode(ctx, func(ctx context.Context, node rueidis.Client) []rueidis.RedisResult {
			return c.detached(ctx, node.DoMulti, build())
		})
	}
	if err := unanswered(rs); err != nil {
		return nil, c.poolError(ctx, err)
	}
	return rs, nil
}

// unanswered returns why there is no answer in place of some results, else nil.
func unanswered(rs []rueidis.RedisResult) error {
	for _, r := range rs {
		if err := r.NonRedisError(); err != nil {
			return err
		}
	}
	return nil
}

// AnyNode asks one node of a cluster after the other until one answers. A node may hang, so
// it waits only nodeTimeout before it asks the next one as well, and then for all of them. It
// gives up no wait before that: rueidis makes its pool larger for each that is ended.
func (c *Conn) AnyNode(
	ctx context.Context, ask func(context.Context, rueidis.Client) []rueidis.RedisResult,
) []rueidis.RedisResult {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := slices.Collect(maps.Values(c.Client.Nodes())) // in random order
	replies := make(chan []rueidis.RedisResult, len(nodes))
	rs := failed(1, errNoNode)
	for asked, replied := 0, 0; replied < len(nodes); {
		if asked < len(nodes) {
			node := nodes[asked]
			asked++
			c.wg.Go(func() { replies <- ask(NoDeadline{ctx}, node) })
		}
		select {
		case rs = <-replies:
			replied++
			for i := range rs {
				c.observe(ctx, &rs[i])
			}
			if unanswered(rs) == nil {
				return rs
			}
		case <-time.After(nodeTimeout):
		case <-ctx.Done():
			return failed(1, ctx.Err())
		}
	}
	return rs
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
