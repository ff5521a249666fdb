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
// returns its answers. There is an error if it has not answered them all.
func (c *Conn) Inquire(ctx context.Context, commands ...[]string) ([]rueidis.RedisResult, error) {
	build := func() rueidis.Commands {
		cmds := make(rueidis.Commands, len(commands))
		for i, words := range commands {
			cmds[i] = c.Client.B().Arbitrary(words...).Build()
		}
		return cmds
	}
	if c.Client.Mode() == rueidis.ClientModeCluster {
		rs := c.AnyNode(ctx, func(ctx context.Context, addr string, node rueidis.Client) []rueidis.RedisResult {
			_, rs := c.send(ctx, nil, node, c.at(addr).room.rounds, nil, rueidis.Completed{}, build())
			return rs
		})
		return rs, unanswered(rs)
	}
	for {
		p := c.begin(&c.places.route)
		_, rs := c.send(ctx, p, p, p.places.rounds, nil, rueidis.Completed{}, build())
		for i := range rs {
			c.observe(ctx, &rs[i])
		}
		if err := unanswered(rs); err != errLeft {
			return rs, err
		}
	}
}

// unanswered returns why there is no answer in place of some results, else nil. That another node has
// a key is an answer.
func unanswered(rs []rueidis.RedisResult) error {
	for _, r := range rs {
		if err := r.NonRedisError(); err != nil && err != ErrClusterNode {
			return err
		}
	}
	return nil
}

// AnyNode asks one node of a cluster after the other until one answers. A node may hang, so
// it waits only nodeTimeout before it asks the next one as well, and then for all of them.
func (c *Conn) AnyNode(
	ctx context.Context, ask func(ctx context.Context, addr string, node rueidis.Client) []rueidis.RedisResult,
) []rueidis.RedisResult {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := c.Client.Nodes()
	addrs := slices.Collect(maps.Keys(nodes)) // in random order
	replies := make(chan []rueidis.RedisResult, len(nodes))
	rs := failed(1, errNoNode)
	for asked, replied := 0, 0; replied < len(nodes); {
		if asked < len(nodes) {
			addr := addrs[asked]
			asked++
			c.wg.Go(func() { replies <- ask(ctx, addr, nodes[addr]) })
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
