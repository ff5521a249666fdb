package transport

import (
	"context"
	"errors"
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
	w := c.watchPool(ctx, c.Client, "", poolTimeout)
	defer w.stop()
	var r rueidis.RedisResult
	if c.Client.Mode() != rueidis.ClientModeCluster {
		r = c.do(NoDeadline{w.ctx}, c.Client.B().Arbitrary(words...).Blocking())
	} else {
		r = c.AnyNode(w.ctx, func(ctx context.Context, node rueidis.Client) rueidis.RedisResult {
			return c.Ask(ctx, node, c.Client.B().Arbitrary(words...).Blocking())
		})
	}
	if err := r.NonRedisError(); err != nil {
		return rueidis.NewErrorResult(w.failed(err))
	}
	return r
}

// InquireAt asks one node of a cluster, which may hang, for a text.
func (c *Conn) InquireAt(ctx context.Context, node rueidis.Client, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	return c.Ask(NoDeadline{ctx}, node, c.Client.B().Arbitrary(words...).Blocking()).ToString()
}

// AnyNode asks one node of a cluster after the other until one answers. A node may hang, so
// it waits only nodeTimeout before it asks the next one as well, and then for all of them. It
// gives up no wait before that: rueidis makes its pool larger for each that is ended.
func (c *Conn) AnyNode(ctx context.Context, ask func(context.Context, rueidis.Client) rueidis.RedisResult) (r rueidis.RedisResult) {
	io, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := c.Client.Nodes()
	replies := make(chan rueidis.RedisResult, len(nodes))
	asked := 0
	// reply waits for an answer, until late or the end of ctx, and reports whether r is one.
	reply := func(late <-chan time.Time) bool {
		for asked > 0 {
			select {
			case r = <-replies:
				asked--
				c.observe(ctx, &r)
				if r.NonRedisError() == nil {
					return true
				}
			case <-late:
				return false
			case <-ctx.Done():
				r = rueidis.NewErrorResult(ctx.Err())
				return true
			}
		}
		return false
	}
	r = rueidis.NewErrorResult(errNoNode)
	for _, node := range nodes { // in random order
		asked++
		c.wg.Go(func() { replies <- ask(NoDeadline{io}, node) })
		if reply(time.After(nodeTimeout)) {
			return r
		}
	}
	reply(nil)
	return r
}

// Once sends one command on a dedicated connection and closes that.
func (c *Conn) Once(ctx context.Context, node rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult {
	conn, release, err := c.Dedicate(ctx, node)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	r := conn.Do(ctx, cmd)
	c.wg.Go(func() { // closing takes up to a second
		conn.Close()
		release()
	})
	return r
}

var errNoNode = errors.New("the client knows no node of the cluster")
