package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/demo"
)

const article = "goods:1000:1"

// lease is how long the lock of an instance that has died stays locked, and how long a
// pause or an outage an instance survives with it.
const lease = 5 * time.Second

// hold opens the shop, lets the buyers in, and counts the orders. The result is nil
// if there is nothing to count.
func hold(ctx context.Context, o *options, st *stats, stdout io.Writer) (_ *result, err error) {
	server, err := demo.Open(o.redis)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	lock := article
	if !server.InMemory {
		lock = "flashsale:" + rand.Text()[:8] + ":" + article
	}
	sale := "{" + lock + "}:sale" // in the slot of the lock, for Hold.Eval
	lease := lease
	if o.freeze {
		lease = freezeLease
	}

	var shop []*instance
	defer func() { err = errors.Join(err, closeShop(context.WithoutCancel(ctx), shop)) }()
	for range o.instances {
		in := &instance{lock: lock, sale: sale, work: o.work, guarded: o.guarded}
		if in.client, err = server.Connect(); err != nil {
			return nil, err
		}
		shop = append(shop, in)
		if !o.unsafe {
			if in.session, err = relock.NewSession(ctx, in.client, relock.WithLease(lease), relock.WithObserver(st)); err != nil {
				return nil, fmt.Errorf("cannot use %s: %w", server.Name, err)
			}
		}
	}
	client := shop[0].client
	for _, r := range client.DoMulti(ctx,
		client.B().Hset().Key(sale).FieldValue().FieldValue("stock", strconv.Itoa(o.stock)).Build(),
		client.B().Expire().Key(sale).Seconds(3600).Build(), // should this process be killed
	) {
		if r.Error() != nil {
			return nil, fmt.Errorf("cannot use %s: %w", server.Name, r.Error())
		}
	}

	how := "under the lock " + lock
	switch {
	case o.unsafe:
		how = "WITHOUT a lock"
	case o.guarded:
		how += ", written by Hold.Eval"
	case o.freeze:
		how += ", by plain writes"
	}
	fmt.Fprintf(stdout, "%d items, %d instances with %d buyers each, %s, on %s\n", o.stock, o.instances, o.buyers, how, server.Name)
	var stopped *frozen
	if o.freeze {
		stopped, err = startFrozen(ctx, frozenSale{
			cmp.Or(o.redis, server.Option.InitAddress[0]), server.InMemory, lock, sale, o.guarded,
		})
		if err != nil {
			return nil, err
		}
		defer stopped.end()
		fmt.Fprintf(stdout, "One more instance has the lock, and is stopped (SIGSTOP) before it writes; "+
			"its lease is %v\n", lease)
	}
	start := time.Now()
	err = letIn(ctx, shop, o.buyers, st, stdout)
	if err != nil {
		err = fmt.Errorf("the sale was broken off: %w", err)
	}
	res := &result{stock: o.stock, took: time.Since(start)}
	if o.freeze && err == nil {
		fmt.Fprint(stdout, "The others are done; the stopped one goes on (SIGCONT), and writes\n\n")
		if err = stopped.thaw(); err != nil {
			err = fmt.Errorf("the frozen instance: %w", err)
		}
	}
	if uncounted := res.count(context.WithoutCancel(ctx), client, sale); uncounted != nil {
		return nil, errors.Join(err, uncounted)
	}
	return res, err
}

// letIn lets all buyers in at once and returns when every one was served. The first
// error ends the sale.
func letIn(ctx context.Context, shop []*instance, buyers int, st *stats, stdout io.Writer) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var wg sync.WaitGroup
	opening := make(chan struct{})
	for i, in := range shop {
		for b := range buyers {
			wg.Go(func() {
				<-opening
				sold, err := in.buy(ctx, fmt.Sprintf("order %d-%d", i, b))
				switch {
				case err != nil:
					fail(err)
					return
				case !sold:
					st.late.Add(1)
				}
				st.served.Add(1)
			})
		}
	}
	var shown sync.WaitGroup
	stop := make(chan struct{})
	shown.Go(func() { showProgress(stdout, st, len(shop)*buyers, stop) })
	close(opening)
	wg.Wait()
	close(stop)
	shown.Wait()
	return context.Cause(ctx)
}

// count reads the orders.
func (r *result) count(ctx context.Context, client rueidis.Client, sale string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	record, err := client.Do(ctx, client.B().Hgetall().Key(sale).Build()).AsStrMap()
	if err != nil {
		return fmt.Errorf("counting the orders: %w", err)
	}
	items := make(map[int]bool)
	for field, order := range record {
		if field == "stock" {
			continue
		}
		r.late = r.late || field == frozenBuyer
		if err := r.add(order, items); err != nil {
			return fmt.Errorf("counting the orders: %w", err)
		}
	}
	return nil
}

// closeShop closes the sessions and clients, and leaves nothing in Redis.
func closeShop(ctx context.Context, shop []*instance) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var errs []error
	for _, in := range shop {
		if in.session != nil {
			errs = append(errs, in.session.Close(ctx))
		}
	}
	for i, in := range shop {
		if i == 0 {
			// The key of the fencing tokens would go by itself, in an hour.
			for _, key := range []string{in.sale, "relock_fence:{" + in.lock + "}"} {
				errs = append(errs, in.client.Do(ctx, in.client.B().Del().Key(key).Build()).Error())
			}
		}
		in.client.Close()
	}
	return errors.Join(errs...)
}
