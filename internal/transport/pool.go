package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
)

// Dedicated connections come from the client's pool of ClientOption.BlockingPoolSize. Each
// session takes one for its life (in a cluster one of each node that it needs), WithReplicas
// one for each acquisition, and the application as many as it likes. When the pool is empty
// the client blocks until a connection is given back, which may be never, and some of its
// calls ignore their context. So watchPool bounds every wait.

const (
	poolTimeout   = 6 * time.Second // longer than the default dial timeout
	poolInterval  = time.Second     // between two checks of the pool, and for one
	maxDedicating = 16              // calls of Dedicate at a time, those that were abandoned among them
)

// ErrPool is the error of a wait for a dedicated connection that the client does not yield.
var ErrPool = errors.New("the client gives no connection although the server answers: " +
	"its pool is exhausted, or connecting takes too long; raise rueidis.ClientOption.BlockingPoolSize, " +
	"of which each session needs one, WithReplicas one more for each acquisition at a time, and other users theirs")

// watchPool returns a context for a wait for the pool that starts now. It ends after d, with
// the cause ErrPool, if the pool is exhausted then: the server answers on the shared
// connection. key is one of the node to check, in a cluster. The caller must call the function.
//
// A second attempt at the pool would be a direct test, but each one that its context ends
// makes the pool one larger (rueidis 1.0.79).
func (c *Conn) watchPool(ctx context.Context, node rueidis.Client, key string, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	until := time.Now().Add(d)
	c.wg.Go(func() { // ends with ctx
		for timing.Pause(ctx, poolInterval); ctx.Err() == nil; timing.Pause(ctx, poolInterval) {
			cmd := node.B().Arbitrary("EVAL", "return 0", "0").Build()
			if key != "" {
				cmd = cmd.SetSlot(key)
			}
			within, end := timing.Within(ctx, poolInterval)
			spent := node.Do(within, cmd).NonRedisError() == nil
			end()
			if ctx.Err() == nil {
				c.Spent.Store(spent)
			}
			if spent && time.Now().After(until) {
				cancel(ErrPool)
			}
		}
	})
	return ctx, func() { cancel(nil) }
}

// poolError returns the error of a wait under a context of watchPool for the client's error err.
func (c *Conn) poolError(ctx context.Context, err error) error {
	switch {
	case !IsContextError(err):
		return err
	case context.Cause(ctx) == ErrPool:
		return ErrPool
	case c.Spent.Load():
		return fmt.Errorf("%w; %w", err, ErrPool)
	}
	return err
}

// Dedicate returns a connection that nobody else uses, and a function that gives it back.
func (c *Conn) Dedicate(ctx context.Context, node rueidis.Client) (rueidis.DedicatedClient, func(), error) {
	ctx, stop := c.watchPool(ctx, node, "", poolTimeout)
	defer stop()
	select {
	case c.dedicating <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, c.poolError(ctx, ctx.Err())
	}
	var conn rueidis.DedicatedClient
	var release func()
	got := make(chan struct{})
	go func() { // ends when the client yields a connection or is closed
		conn, release = node.Dedicate()
		<-c.dedicating
		select {
		case got <- struct{}{}:
		case <-ctx.Done():
			conn.Close() // or rueidis sends UNSUBSCRIBE, and panics if the server refuses
			release()
		}
	}()
	select {
	case <-got:
		return conn, release, nil
	case <-ctx.Done():
		return nil, nil, c.poolError(ctx, ctx.Err())
	}
}
