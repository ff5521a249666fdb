package transport

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
)

// Dedicated connections come from the client's pool of ClientOption.BlockingPoolSize. Each
// session takes one for its life (in a cluster one of each node that it needs), WithReplicas
// one for each acquisition, and the application as many as it likes. When the pool is empty
// the client blocks until a connection is given back, which may be never, and some of its
// calls ignore their context. So a poolWatch bounds every wait.

const (
	poolTimeout  = 6 * time.Second // longer than the default dial timeout
	poolInterval = time.Second     // between two checks of the pool, and for one
	maxStuck     = 4               // abandoned calls of Dedicate at a time
)

// ErrPool is the error of a wait for a dedicated connection that the client does not yield.
var ErrPool = errors.New("the client gives no connection although the server answers: " +
	"its pool is exhausted, or connecting takes too long; raise rueidis.ClientOption.BlockingPoolSize, " +
	"of which each session needs one, WithReplicas one more for each acquisition at a time, and other users theirs")

// poolWatch ends a wait for a connection of the pool when the pool is exhausted.
type poolWatch struct {
	ctx    context.Context // bounds the wait
	cancel context.CancelFunc
	c      *Conn
	node   doer
	key    string // in a cluster, a key of the node to check
	until  time.Time
	timer  *time.Timer
	gaveUp atomic.Bool // the pool was exhausted at until
}

// doer sends commands on a shared connection.
type doer interface {
	Do(context.Context, rueidis.Completed) rueidis.RedisResult
	B() rueidis.Builder
}

// watchPool watches a wait that starts now. It ends the wait after d if the pool is exhausted
// then. The caller must call stop.
func (c *Conn) watchPool(ctx context.Context, node doer, key string, d time.Duration) *poolWatch {
	w := &poolWatch{c: c, node: node, key: key, until: time.Now().Add(d)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.timer = time.AfterFunc(math.MaxInt64, w.look)
	w.timer.Reset(poolInterval) // starts only now, since look reads w.timer
	return w
}

func (w *poolWatch) stop() {
	w.timer.Stop()
	w.cancel()
}

// look records whether the pool is exhausted, and gives up after until.
func (w *poolWatch) look() {
	exhausted := w.exhausted()
	switch {
	case w.ctx.Err() != nil:
	case exhausted && time.Now().After(w.until):
		w.c.Spent.Store(true)
		w.gaveUp.Store(true)
		w.cancel()
	default:
		w.c.Spent.Store(exhausted)
		w.timer.Reset(poolInterval)
	}
}

// exhausted reports whether the server answers on the shared connection: then the wait is
// the pool's fault.
//
// A second attempt at the pool would be a direct test, but each one that its context ends
// makes the pool one larger (rueidis 1.0.79).
func (w *poolWatch) exhausted() bool {
	ctx, cancel := timing.Within(w.ctx, poolInterval)
	defer cancel()
	cmd := w.node.B().Arbitrary("EVAL", "return 0", "0").Build()
	if w.key != "" {
		cmd = cmd.SetSlot(w.key)
	}
	return w.node.Do(NoDeadline{ctx}, cmd).NonRedisError() == nil
}

// failed returns the error of the wait for the client's error err.
func (w *poolWatch) failed(err error) error {
	switch {
	case !IsContextError(err):
		return err
	case w.gaveUp.Load():
		return ErrPool
	case w.c.Spent.Load():
		return fmt.Errorf("%w; %w", err, ErrPool)
	}
	return err
}

// Dedicater is a client of one node or of a deployment.
type Dedicater interface {
	doer
	Dedicate() (rueidis.DedicatedClient, func())
}

// Dedicate returns a connection that nobody else uses, and a function that gives it back.
func (c *Conn) Dedicate(ctx context.Context, node Dedicater) (rueidis.DedicatedClient, func(), error) {
	w := c.watchPool(ctx, node, "", poolTimeout)
	defer w.stop()
	for c.stuck.Load() >= maxStuck && w.ctx.Err() == nil {
		timing.Pause(w.ctx, timing.Jitter(poolInterval/20))
	}
	if w.ctx.Err() != nil {
		return nil, nil, w.failed(w.ctx.Err())
	}
	type dedicated struct {
		conn    rueidis.DedicatedClient
		release func()
	}
	got := make(chan dedicated)
	go func() { // ends when the client yields a connection or is closed
		conn, release := node.Dedicate()
		select {
		case got <- dedicated{conn, release}:
		case <-w.ctx.Done():
			release()
			c.stuck.Add(-1)
		}
	}()
	select {
	case h := <-got:
		return h.conn, h.release, nil
	case <-w.ctx.Done():
		c.stuck.Add(1)
		return nil, nil, w.failed(w.ctx.Err())
	}
}
