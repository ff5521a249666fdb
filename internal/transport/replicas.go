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
// Both use a connection of their own, since WAIT blocks it. In a cluster that follows no
// redirection; they are redirected together here. (After a MOVED the cluster client would redirect
// the script but not WAIT, which the old node answers at once, having nothing to wait for.)
func (c *Conn) EvalWait(ctx context.Context, s *Script, keys, args []string) ([]int64, error) {
	cmd := c.Evalsha(s, keys, args)
	for redirects := 0; ; redirects++ {
		wait := c.Client.B().Wait().Numreplicas(int64(c.Replicas)).Timeout(c.AckWait.Milliseconds()).Build()
		rs := c.alone(ctx, c.primaryOf(keys), rueidis.Commands{cmd, wait})
		for i := range rs {
			c.observe(ctx, &rs[i])
		}
		n, err := integers(rs[0])
		addr, moved := "", false
		if re, refused := rueidis.IsRedisErr(err); refused {
			addr, moved = re.IsMoved()
		}
		switch {
		case isNoScript(err):
			cmd = c.evalText(s, keys, args)
		case moved && c.Slots != nil && redirects < maxRedirects:
			c.Slots.Moved(Slot(keys[0]), addr)
			cmd = c.Evalsha(s, keys, args)
		case err != nil || n[0] <= 0:
			return n, err
		default:
			acks, err := rs[1].AsInt64()
			if err == nil && int(acks) < c.Replicas {
				err = &ReplicaError{int(acks), c.Replicas}
			}
			return n, err
		}
	}
}

// primaryOf returns the address of the primary of some keys, of any one if there are no keys. While
// that is unknown it is one of any node, which will name it.
func (c *Conn) primaryOf(keys []string) string {
	if c.Slots == nil {
		return ""
	}
	addrs := c.Slots.Primaries()
	if len(keys) > 0 {
		addrs = []string{c.Slots.Primary(Slot(keys[0]))}
	}
	nodes := c.Client.Nodes()
	for _, addr := range addrs {
		if nodes[addr] != nil {
			return addr
		}
	}
	for addr := range nodes {
		return addr
	}
	return ""
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
