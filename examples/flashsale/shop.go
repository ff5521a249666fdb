package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

const article = "goods:1000:1"

// lease is how long the lock of an instance that has died stays locked, and how long a
// pause or an outage an instance survives with it.
const lease = 5 * time.Second

// hold opens the shop, lets the buyers in, and counts the orders. The result is nil
// if there is nothing to count.
func hold(ctx context.Context, o *options, st *stats, stdout io.Writer) (_ *result, err error) {
	server, err := serverFor(o.redis)
	if err != nil {
		return nil, err
	}
	defer server.close()
	lock, sale := server.prefix+article, server.prefix+article+":sale"

	var shop []*instance
	defer func() { err = errors.Join(err, closeShop(context.WithoutCancel(ctx), shop)) }()
	for range o.instances {
		in := &instance{lock: lock, sale: sale, work: o.work}
		if in.client, err = rueidis.NewClient(server.option); in.client != nil {
			shop = append(shop, in) // to be closed, error or not
		}
		if err == nil && !o.unsafe {
			in.session, err = relock.NewSession(ctx, in.client, relock.WithLease(lease), relock.WithObserver(st))
		}
		if err != nil {
			return nil, fmt.Errorf("cannot use %s: %w", server.name, err)
		}
	}
	client := shop[0].client
	for _, r := range client.DoMulti(ctx,
		client.B().Hset().Key(sale).FieldValue().FieldValue("stock", strconv.Itoa(o.stock)).Build(),
		client.B().Expire().Key(sale).Seconds(3600).Build(), // should this process be killed
	) {
		if r.Error() != nil {
			return nil, fmt.Errorf("cannot use %s: %w", server.name, r.Error())
		}
	}

	how := "under the lock " + lock
	if o.unsafe {
		how = "WITHOUT a lock"
	}
	fmt.Fprintf(stdout, "%d items, %d instances with %d buyers each, %s, on %s\n", o.stock, o.instances, o.buyers, how, server.name)
	start := time.Now()
	err = letIn(ctx, shop, o.buyers, st, stdout)
	if err != nil {
		err = fmt.Errorf("the sale was broken off: %w", err)
	}
	res := &result{stock: o.stock, took: time.Since(start)}
	if uncounted := res.count(context.WithoutCancel(ctx), client, sale); uncounted != nil {
		return nil, errors.Join(err, uncounted)
	}
	return res, err
}

// server is the Redis that the sale is held on.
type server struct {
	name   string // for people
	option rueidis.ClientOption
	prefix string // of every key
	close  func()
}

// serverFor returns the Redis at an address, or a new one in memory if there is none.
func serverFor(redis string) (*server, error) {
	s := &server{close: func() {}}
	if redis == "" {
		mini, err := miniredis.Run()
		if err != nil {
			return nil, fmt.Errorf("starting a Redis in memory: %w", err)
		}
		s.name, s.close = "a Redis in memory", mini.Close
		s.option.InitAddress = []string{mini.Addr()}
		s.option.ForceSingleClient = true // it answers CLUSTER, but is none
	} else {
		s.option.InitAddress = []string{redis}
		if strings.Contains(redis, "://") {
			option, err := rueidis.ParseURL(redis)
			if err != nil {
				return nil, fmt.Errorf("-redis: %w", err)
			}
			s.option = option
		}
		s.name = "Redis at " + s.option.InitAddress[0]
		s.prefix = "flashsale:" + rand.Text()[:8] + ":"
	}
	s.option.DisableCache = true // not needed for locks, and unknown to miniredis
	s.option.Dialer = net.Dialer{Timeout: 3 * time.Second}
	return s, nil
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
