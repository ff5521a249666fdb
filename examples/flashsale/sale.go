package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// instance is one instance of the shop's service. In production each is a process
// of its own; all they share is Redis.
type instance struct {
	client  rueidis.Client
	session *relock.Session // nil: sell without the lock
	lock    string          // its name
	sale    string          // hash: what is left in the field "stock", and one field for each order
	work    time.Duration   // what a sale takes: a look at the price, a word with the bank
	guarded bool            // write by Hold.Eval
	pause   func() error    // if it is not nil, called once, before the first order is written
}

// buy sells one item to a buyer, or reports false when there is none left.
func (in *instance) buy(ctx context.Context, buyer string) (bool, error) {
	if in.session == nil {
		return in.sell(ctx, buyer, 0)
	}
	for {
		var sold bool
		err := relock.Do(ctx, in.session.Mutex(in.lock), func(ctx context.Context) (err error) {
			sold, err = in.sell(ctx, buyer, relock.Token(ctx))
			return err
		})
		if !errors.Is(err, relock.ErrLost) || ctx.Err() != nil {
			return sold, err
		}
		// The lock was lost on the way: this process stood still, or Redis was out
		// of reach, for longer than the lease. The order may have been written or
		// not. Do not guess, look; and if it was not, try again.
		ordered, err := in.ordered(ctx, buyer)
		if ordered || err != nil {
			return ordered, err
		}
	}
}

// sell reads the stock, works, and writes the stock back: the read-then-write that
// sells an item twice unless a lock keeps everybody else out.
//
// ctx ends when the lock is lost, and with it every call that was given ctx: what
// has not been written by then is not written any more. A process that was frozen
// may notice too late, and no lock can prevent that. So each order says which item
// it is for, and the fencing token that it was written under: should there ever be
// two orders for an item, only the one with the larger token is shipped. Or, since
// the orders are in the Redis that has the lock, Redis itself looks whether the lock
// is still held, at the moment of the write: with Hold.Eval (guarded).
func (in *instance) sell(ctx context.Context, buyer string, token int64) (bool, error) {
	stock, err := in.client.Do(ctx, in.client.B().Hget().Key(in.sale).Field("stock").Build()).AsInt64()
	if err != nil || stock == 0 {
		return false, err
	}

	select {
	case <-time.After(in.work):
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}

	if pause := in.pause; pause != nil {
		in.pause = nil
		if err := pause(); err != nil {
			return false, err
		}
		// However late the last look at ctx is, a process can be frozen behind it. Here
		// it is always before the pause.
		ctx = context.WithoutCancel(ctx)
	}

	// One command writes the new stock and the order, so neither is there alone.
	order := fmt.Sprintf("item %d token %d", stock, token)
	if in.guarded {
		err = relock.HoldOf(ctx).Eval(ctx, `return redis.call('HSET', KEYS[1], unpack(ARGV))`,
			[]string{in.sale}, []string{"stock", strconv.FormatInt(stock-1, 10), buyer, order}).Error()
		return err == nil, err
	}
	err = in.client.Do(ctx, in.client.B().Hset().Key(in.sale).FieldValue().
		FieldValue("stock", strconv.FormatInt(stock-1, 10)).
		FieldValue(buyer, order).Build()).Error()
	return err == nil, err
}

// ordered reports whether the buyer's order was written.
func (in *instance) ordered(ctx context.Context, buyer string) (bool, error) {
	return in.client.Do(ctx, in.client.B().Hexists().Key(in.sale).Field(buyer).Build()).AsBool()
}
