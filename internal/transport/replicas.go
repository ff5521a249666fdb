package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/lockerr"
)

// ReplicaError means that fewer replicas than wanted have acknowledged a write in time.
type ReplicaError struct{ Got, Want int }

// Is reports whether target is what users look for.
func (e *ReplicaError) Is(target error) bool { return target == lockerr.ErrReplicas }

// Error says how many replicas have acknowledged the write.
func (e *ReplicaError) Error() string {
	return fmt.Sprintf("%d of %d replicas have acknowledged it in time", e.Got, e.Want)
}

// maxRedirects is how often a script follows a redirection to another node.
const maxRedirects = 4

// EvalWait runs a script that returns integers, and then WAIT on the same connection. A positive
// first one means that the script has written; an error of type *ReplicaError beside it means that
// too few replicas have that write.
//
// After a MOVED the cluster client would redirect the script but not WAIT, which the old node
// answers at once, having nothing to wait for. So in a cluster both go to one node, which follows no
// redirection, and are redirected together here.
func (c *Conn) EvalWait(ctx context.Context, s *Script, keys, args []string) ([]int64, error) {
	send, key := c.Pipelined, ""
	if c.Slots != nil {
		send = c.sendToPrimary
		if len(keys) > 0 { // else any primary will do
			key = keys[0]
		}
	}
	ctx, stop := c.watchPool(ctx, c.Client, key, poolTimeout+c.AckWait)
	defer stop()
	cmd := c.Evalsha(s, keys, args)
	for redirects := 0; ; redirects++ {
		wait := c.Client.B().Wait().Numreplicas(int64(c.Replicas)).Timeout(c.AckWait.Milliseconds()).Build()
		if c.Slots != nil {
			wait = wait.SetSlot(key)
		}
		rs := send(ctx, rueidis.Commands{cmd, wait})
		n, err := integers(rs[0])
		addr, moved := "", false
		if re, refused := rueidis.IsRedisErr(err); refused {
			addr, moved = re.IsMoved()
		}
		switch {
		case isNoScript(err):
			cmd = c.evalText(s, keys, args)
		case moved && c.Slots != nil && redirects < maxRedirects:
			c.Slots.Moved(Slot(key), addr)
			cmd = c.Evalsha(s, keys, args)
		case err != nil || n[0] <= 0:
			return n, c.poolError(ctx, err)
		default:
			acks, err := rs[1].AsInt64()
			if err == nil && int(acks) < c.Replicas {
				err = &ReplicaError{int(acks), c.Replicas}
			}
			return n, c.poolError(ctx, err)
		}
	}
}

// integers returns those of a reply: at least one, unless there is an error.
func integers(r rueidis.RedisResult) ([]int64, error) {
	if n, err := r.AsInt64(); err == nil {
		return []int64{n}, nil
	}
	n, err := r.AsIntSlice()
	if err == nil && len(n) == 0 {
		err = errors.New("the reply has no integer")
	}
	return n, err
}

// sendToPrimary sends commands, the last of which has a slot and is a WAIT, in one pipeline on a
// connection of the pool, to the primary of that slot, or to any node while that is unknown. It is
// not a dedicated connection: with that rueidis sends UNSUBSCRIBE when it is given back, and panics
// if the server is busy or cannot save, and refuses.
func (c *Conn) sendToPrimary(ctx context.Context, cmds rueidis.Commands) []rueidis.RedisResult {
	nodes := c.Client.Nodes()
	primary := nodes[c.Slots.Primary(cmds[len(cmds)-1].Slot())]
	for _, node := range nodes {
		if primary == nil {
			primary = node // knows better
		}
	}
	if primary == nil {
		return failed(len(cmds), errNoNode)
	}
	return c.detached(ctx, primary.DoMulti, cmds)
}
