package relock

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

// replicaError: fewer replicas than wanted have acknowledged a write in time.
type replicaError struct{ got, want int }

func (e *replicaError) Error() string {
	return fmt.Sprintf("%d of %d replicas have acknowledged it in time", e.got, e.want)
}

// redirectsMost is how often a script is sent on to another node.
const redirectsMost = 4

// sender sends commands on one connection.
type sender func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult

// evalWait runs a script, and WAIT on the connection that ran it. The write counts
// if the script's result is positive; then a replicaError says that too few replicas
// have it.
//
// In a cluster the client would send the script on after a MOVED, but not WAIT, which
// the old node answers at once: it has nothing to wait for. So there both go to a
// connection that follows nothing, and are sent on together.
func (p *protocol) evalWait(ctx context.Context, s *script, keys, args []string, c *sessionConfig) (int64, error) {
	send := sender(p.doMulti)
	if p.cluster {
		send = p.dedicated(p.client)
	}
	verb, body, asking := "EVALSHA", s.sha, false
	for redirects := 0; ; redirects++ {
		n, err := p.written(ctx, send, p.command(verb, body, keys, args), keys[0], asking, c)
		re, ok := rueidis.IsRedisErr(err)
		if !ok || redirects == redirectsMost {
			return n, err
		}
		addr, moved := re.IsMoved()
		if !moved {
			addr, asking = re.IsAsk()
		}
		switch node := p.client.Nodes()[addr]; {
		case re.IsNoScript():
			verb, body = "EVAL", s.text
		case (moved || asking) && p.cluster && node != nil:
			send = p.dedicated(node)
			if moved {
				p.atlas.heard(p.slot(keys[0]), addr)
			}
		default:
			return n, err
		}
	}
}

// written sends a script and waits for the replicas.
func (p *protocol) written(ctx context.Context, send sender, script rueidis.Completed, key string, asking bool, c *sessionConfig) (int64, error) {
	wait := p.client.B().Wait().Numreplicas(int64(c.replicas)).Timeout(c.ackWait.Milliseconds()).Build()
	cmds := rueidis.Commands{script, wait}
	if p.cluster {
		cmds[1] = wait.SetSlot(key)
	}
	if asking {
		cmds = slices.Insert(cmds, 0, p.client.B().Asking().Build())
	}
	rs := send(ctx, cmds...)
	rs = rs[len(rs)-2:]
	n, err := rs[0].AsInt64()
	if err != nil || n <= 0 {
		return n, err
	}
	acks, err := rs[1].AsInt64()
	if err == nil && int(acks) < c.replicas {
		err = &replicaError{int(acks), c.replicas}
	}
	return n, err
}

// dedicated returns a sender on a connection that nobody else uses meanwhile.
func (p *protocol) dedicated(client interface {
	Dedicate() (rueidis.DedicatedClient, func())
}) sender {
	return func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
		rs := p.detached(ctx, func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
			conn, put := client.Dedicate()
			defer put()
			rs := conn.DoMulti(ctx, cmds...)
			if slices.ContainsFunc(rs, func(r rueidis.RedisResult) bool { return r.NonRedisError() != nil }) {
				conn.Close() // it may be waiting for the reply yet
			}
			return rs
		}, cmds)
		for i := range rs {
			p.heard(ctx, &rs[i])
		}
		return rs
	}
}
