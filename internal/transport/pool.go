package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
)

// Dedicated connections come from the client's pool of ClientOption.BlockingPoolSize. Each
// session takes one for its life (in a cluster one of each node that it needs), WithReplicas
// one for each acquisition, and the application as many as it likes. When the pool is empty
// the client blocks until a connection is given back, which may be never, and so it does while
// it connects.

const (
	poolTimeout   = 6 * time.Second // longer than the default dial timeout
	poolInterval  = time.Second     // between two checks of the pool, and for one
	maxDedicating = 16              // calls of Dedicate at a time, those that were abandoned among them
)

// ErrPool is the error of a wait for a dedicated connection that the client does not yield.
var ErrPool = errors.New("the client gives no connection although the server answers: " +
	"its pool is exhausted, or connecting takes too long; raise rueidis.ClientOption.BlockingPoolSize, " +
	"of which each session needs one, WithReplicas one more for each acquisition at a time, and other users theirs")

// Dedicate returns a connection to the node at addr that nobody else uses, and a function that
// gives it back. It returns ErrPool if there is none for long although the node answers on the
// shared connection. (A second attempt would be a direct test of the pool.)
func (c *Conn) Dedicate(ctx context.Context, addr string) (rueidis.DedicatedClient, func(), error) {
	node := c.node(addr)
	if node == nil {
		return nil, nil, errors.New("the cluster has no node " + addr)
	}
	type dedicated struct {
		conn    rueidis.DedicatedClient
		release func()
	}
	place, yielded, gone := c.at(addr).dedicate, make(chan dedicated), make(chan struct{})
	defer close(gone)
	checks := time.NewTicker(poolInterval)
	defer checks.Stop()
	free, spent := place, false
	for start := time.Now(); ; {
		select {
		case free <- struct{}{}:
			free = nil
			go func() { // ends when the client yields a connection or is closed
				conn, release := node.Dedicate()
				<-place
				select {
				case yielded <- dedicated{conn, release}:
				case <-gone:
					conn.Close() // or rueidis may send UNSUBSCRIBE, and panics if the server refuses
					release()
				}
			}()
		case d := <-yielded:
			c.Spent.Store(false)
			return d.conn, d.release, nil
		case <-checks.C:
			if spent = c.answers(ctx, addr, node); ctx.Err() == nil {
				c.Spent.Store(spent)
			}
			if spent && time.Since(start) >= poolTimeout+c.AckWait {
				return nil, nil, ErrPool
			}
		case <-ctx.Done():
			if spent {
				return nil, nil, fmt.Errorf("%w; %w", ctx.Err(), ErrPool)
			}
			return nil, nil, ctx.Err()
		}
	}
}

// node returns the client of the node at addr, nil if there is none. Outside a cluster there is
// one.
func (c *Conn) node(addr string) rueidis.Client {
	if c.Slots == nil {
		return c.Client
	}
	return c.Client.Nodes()[addr]
}

// answers reports whether a node answers on the shared connection.
func (c *Conn) answers(ctx context.Context, addr string, node rueidis.Client) bool {
	ctx, stop := timing.Within(ctx, poolInterval)
	defer stop()
	return c.Ask(ctx, addr, node, node.B().Arbitrary("EVAL", "return 0", "0").Build()).NonRedisError() == nil
}

// unacknowledged reports whether too few replicas have what was sent: the connection may have been
// idle since before a failover, and lead to what takes itself for the primary still.
func (c *Conn) unacknowledged(rs []rueidis.RedisResult) bool {
	acks, err := rs[len(rs)-1].AsInt64()
	return err == nil && len(rs) > 1 && int(acks) < c.Replicas
}

// alone sends commands on a connection of their own to the node at addr.
func (c *Conn) alone(ctx context.Context, addr string, cmds rueidis.Commands) []rueidis.RedisResult {
	n := len(cmds)
	conn, release, err := c.Dedicate(ctx, addr)
	if err != nil {
		return failed(n, err)
	}
	s := &unending{Context: valuesOf(ctx)}
	var over atomic.Bool // there are replies, or the call has ended
	replies := make(chan []rueidis.RedisResult, 1)
	c.wg.Go(func() { // ends with the replies, or as the connection is closed
		rs := conn.DoMulti(s, cmds...)
		if !over.CompareAndSwap(false, true) {
			return
		}
		replies <- rs
		if slices.ContainsFunc(rs, func(r rueidis.RedisResult) bool {
			code, _ := Code(r.Error())
			return r.NonRedisError() != nil || asReplica(code) // it may have been idle since before a failover
		}) || c.unacknowledged(rs) {
			conn.Close()
		}
		release()
	})
	silent := time.NewTimer(c.AckWait + AnswerMost)
	defer silent.Stop()
	err = ErrSilent // likewise
	select {
	case rs := <-replies:
		return rs
	case <-silent.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.left.Store(true)
	if !over.CompareAndSwap(false, true) {
		return <-replies
	}
	c.wg.Go(func() { // takes up to a second
		conn.Close()
		release()
	})
	return failed(n, err)
}
