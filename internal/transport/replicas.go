package transport

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

// ReplicaError means that fewer replicas than wanted have acknowledged a write in time.
type ReplicaError struct{ Got, Want int }

// Error says how many replicas have acknowledged the write.
func (e *ReplicaError) Error() string {
	return fmt.Sprintf("%d of %d replicas have acknowledged it in time", e.Got, e.Want)
}

// maxRedirects is how often a script follows a redirection to another node.
const maxRedirects = 4

// sender sends commands on one connection.
type sender func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult

// EvalWait runs a script, and then WAIT on the same connection. A positive result of the
// script means that it has written; an error of type *ReplicaError beside it means that too
// few replicas have that write.
//
// After a MOVED the cluster client would redirect the script but not WAIT, which the old node
// answers at once, having nothing to wait for. So in a cluster both use a dedicated
// connection, which follows no redirection, and are redirected together here.
func (c *Conn) EvalWait(ctx context.Context, s *Script, keys, args []string) (int64, error) {
	send, tag := sender(c.doMulti), ""
	if c.Slots != nil {
		send, tag = c.dedicated(c.Client), keys[0]
	}
	w := c.watchPool(ctx, c.Client, tag, poolTimeout+c.AckWait)
	defer w.stop()
	ctx = w.ctx
	verb, body := s.Call()
	asking := false
	for redirects := 0; ; redirects++ {
		n, err := c.written(ctx, send, c.command(verb, body, keys, args), keys[0], asking)
		err = w.failed(err)
		re, ok := rueidis.IsRedisErr(err)
		if !ok || redirects == maxRedirects {
			return n, err
		}
		addr, moved := re.IsMoved()
		if !moved {
			addr, asking = re.IsAsk()
		}
		switch node := c.Client.Nodes()[addr]; {
		case re.IsNoScript():
			verb, body = "EVAL", s.Text
		case (moved || asking) && c.Slots != nil && node != nil:
			send = c.dedicated(node)
			if moved {
				c.Slots.Moved(c.Slot(keys[0]), addr)
			}
		default:
			return n, err
		}
	}
}

// written sends a script and WAIT. asking puts ASKING before them.
func (c *Conn) written(ctx context.Context, send sender, script rueidis.Completed, key string, asking bool) (int64, error) {
	wait := c.Client.B().Wait().Numreplicas(int64(c.Replicas)).Timeout(c.AckWait.Milliseconds()).Build()
	cmds := rueidis.Commands{script, wait}
	if c.Slots != nil {
		cmds[1] = wait.SetSlot(key)
	}
	if asking {
		cmds = slices.Insert(cmds, 0, c.Client.B().Asking().Build())
	}
	rs := send(ctx, cmds...)
	rs = rs[len(rs)-2:]
	n, err := rs[0].AsInt64()
	if err != nil || n <= 0 {
		return n, err
	}
	acks, err := rs[1].AsInt64()
	if err == nil && int(acks) < c.Replicas {
		err = &ReplicaError{int(acks), c.Replicas}
	}
	return n, err
}

// dedicated returns a sender that takes a connection of its own for each pipeline.
func (c *Conn) dedicated(client Dedicater) sender {
	return func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
		rs := c.detached(ctx, func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
			conn, release, err := c.Dedicate(ctx, client)
			if err != nil {
				return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, len(cmds))
			}
			defer release()
			rs := conn.DoMulti(ctx, cmds...)
			if slices.ContainsFunc(rs, unanswered) {
				conn.Close() // it may still wait for the reply
			}
			return rs
		}, cmds)
		for i := range rs {
			c.observe(ctx, &rs[i])
		}
		return rs
	}
}
