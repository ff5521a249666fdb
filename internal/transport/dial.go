package transport

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
)

const (
	maxStale = 8               // connections that Dial tries
	newMost  = 1 * time.Second // the age of a connection that is new

	// How long it waits, before it tries another one beside, for a connection, and for an answer on
	// it: a new one has just been answered.
	hedgeDial  = 2 * time.Second
	hedgeCheck = 250 * time.Millisecond
)

// A dedicated connection, which nobody else uses.
type dedicated struct {
	rueidis.DedicatedClient
	release func() // gives it back to the client's pool
}

// discard closes the connection, which takes up to a second if nobody answers. It is not given
// back open: rueidis would send UNSUBSCRIBE, and panics when a busy server refuses that.
func (c *Conn) discard(d dedicated) {
	c.wg.Go(func() {
		d.Close()
		d.release()
	})
}

// Dial returns a connection to the node at addr that nobody else uses and that passes Check, and a
// function that gives it back. The client's pool may have idle connections that lead to what was
// the primary once, or nowhere. Those are closed, and others tried.
func (c *Conn) Dial(ctx context.Context, addr string) (rueidis.DedicatedClient, func(), error) {
	return c.dialTo(ctx, addr, c.Check)
}

// dialNew is Dial of a connection that has not been idle in the pool, as far as the server tells: it
// leads to where the address leads now. An old one may lead to what takes itself for the primary still.
func (c *Conn) dialNew(ctx context.Context, addr string) (rueidis.DedicatedClient, func(), error) {
	return c.dialTo(ctx, addr, func(ctx context.Context, conn rueidis.CommandClient) error {
		if err := c.Check(ctx, conn); err != nil {
			return err
		}
		if c.ageOf(ctx, conn) > newMost {
			return errOld
		}
		return nil
	})
}

func (c *Conn) dialTo(
	ctx context.Context, addr string, check func(ctx context.Context, conn rueidis.CommandClient) error,
) (rueidis.DedicatedClient, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the tries that are left
	type result struct {
		dedicated
		err error
	}
	results := make(chan result)
	slow := make(chan struct{}, maxStale)
	tries, open := 0, 0
	try := func() {
		if tries == maxStale {
			return
		}
		tries, open = tries+1, open+1
		c.wg.Go(func() { // ends with ctx
			d, err := c.try(ctx, addr, check, slow)
			select {
			case results <- result{d, err}:
			case <-ctx.Done():
				if err == nil {
					c.discard(d)
				}
			}
		})
	}
	for try(); ; {
		select {
		case r := <-results:
			if open--; r.err == errOld {
				tries-- // the pool has so many, and no more
			}
			if stale(r.err) {
				try()
			}
			if !stale(r.err) || open == 0 {
				return r.DedicatedClient, r.release, r.err
			}
		case <-slow:
			try()
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// try takes a connection and checks it. It signals slow if that takes long.
func (c *Conn) try(
	ctx context.Context, addr string, check func(ctx context.Context, conn rueidis.CommandClient) error,
	slow chan struct{},
) (d dedicated, err error) {
	timer := time.AfterFunc(hedgeDial, func() { timing.Signal(slow) })
	defer timer.Stop()
	if d.DedicatedClient, d.release, err = c.Dedicate(ctx, addr); err != nil {
		return d, err
	}
	timer.Reset(hedgeCheck)
	if err = check(ctx, d); err != nil {
		c.discard(d)
	}
	return d, err
}
