package setnx

import (
	"context"
	"crypto/rand"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Section 1 of the page.

func lockThenExpire(ctx context.Context, client rueidis.Client, key string) (bool, error) {
	ok, err := client.Do(ctx, client.B().Setnx().Key(key).Value("1").Build()).AsBool()
	if err != nil || !ok {
		return false, err
	}
	// The process dies here.
	return true, client.Do(ctx, client.B().Expire().Key(key).Seconds(30).Build()).Error()
}

func tryLock(ctx context.Context, client rueidis.Client, key, value string) (bool, error) {
	err := client.Do(ctx, client.B().Set().Key(key).Value(value).Nx().ExSeconds(30).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil // taken
	}
	return err == nil, err
}

// Section 2 of the page.

func unlockAnybodys(ctx context.Context, client rueidis.Client, key string) error {
	return client.Do(ctx, client.B().Del().Key(key).Build()).Error()
}

// Section 3 of the page.

func unlockInTwoSteps(ctx context.Context, client rueidis.Client, key, value string) error {
	holder, err := client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
	if err != nil || holder != value {
		return err
	}
	// The lock expires here, and somebody else takes it.
	return client.Do(ctx, client.B().Del().Key(key).Build()).Error()
}

const release = `
	if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
	return redis.call('DEL', KEYS[1])`

func unlock(ctx context.Context, client rueidis.Client, key, value string) error {
	del := client.B().Eval().Script(release).Numkeys(1).Key(key).Arg(value).Build()
	return client.Do(ctx, del).Error()
}

// Section 4 of the page.

func tryDo(ctx context.Context, client rueidis.Client, key string,
	work func(context.Context) error) (bool, error) {
	value := rand.Text()
	if ok, err := tryLock(ctx, client, key, value); err != nil || !ok {
		return false, err
	}
	defer unlock(context.WithoutCancel(ctx), client, key, value)
	return true, work(ctx) // it may take longer than 30 s
}

// Section 5 of the page.

func keepRenewing(ctx context.Context, client rueidis.Client, key string) {
	for ctx.Err() == nil {
		select {
		case <-time.After(10 * time.Second): // whose lock is it by now?
			client.Do(ctx, client.B().Expire().Key(key).Seconds(30).Build())
		case <-ctx.Done():
		}
	}
}

// Section 6 of the page.

func sell(ctx context.Context, client rueidis.Client, held func() bool) error {
	stock, err := client.Do(ctx, client.B().Get().Key("stock").Build()).AsInt64()
	if err != nil || stock == 0 || !held() {
		return err
	}
	// The process is paused here, for longer than the lease.
	left := strconv.FormatInt(stock-1, 10)
	return client.Do(ctx, client.B().Set().Key("stock").Value(left).Build()).Error()
}

// Section 7 of the page.

func lockByPolling(ctx context.Context, client rueidis.Client, key, value string) error {
	for {
		if ok, err := tryLock(ctx, client, key, value); err != nil || ok {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Section 8 of the page.

func tryLockAgain(ctx context.Context, client rueidis.Client, key, value string) (bool, error) {
	var ok bool
	var err error
	for range 3 {
		if ok, err = tryLock(ctx, client, key, value); err == nil {
			break // but the lock may be taken by the attempt before
		}
	}
	return ok, err
}
