package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

const (
	prefix = "example:"
	lease  = 3 * time.Second
)

// work uses locks of each kind from two sessions, as far apart as two processes, until ctx ends.
func work(ctx context.Context, addr string, observer relock.Observer, workers int, pace time.Duration) error {
	option := rueidis.ClientOption{InitAddress: []string{addr}}
	var memory *miniredis.Miniredis
	var err error
	switch {
	case addr == "":
		if memory, err = miniredis.Run(); err != nil {
			return fmt.Errorf("starting a Redis in memory: %w", err)
		}
		defer memory.Close()
		option = rueidis.ClientOption{InitAddress: []string{memory.Addr()}, ForceSingleClient: true}
	case strings.Contains(addr, "://"):
		if option, err = rueidis.ParseURL(addr); err != nil {
			return fmt.Errorf("-redis: %w", err)
		}
	}
	option.DisableCache = true // not needed for locks, and unknown to miniredis
	client, err := rueidis.NewClient(option)
	if err != nil {
		return fmt.Errorf("cannot use Redis at %s: %w", option.InitAddress[0], err)
	}
	defer client.Close()

	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i := range 2 {
		session, err := relock.NewSession(ctx, client,
			relock.WithPrefix(prefix), relock.WithLease(lease), relock.WithObserver(observer))
		if err != nil {
			return err
		}
		running.Go(func() { use(ctx, session, workers, pace) })
		if i == 0 {
			running.Go(func() { trouble(ctx, session, memory) })
		}
	}
	running.Wait()
	return nil
}

// use starts the goroutines of a session, and closes it when they have ended.
func use(ctx context.Context, session *relock.Session, workers int, pace time.Duration) {
	var running sync.WaitGroup
	for _, lock := range []func() relock.Locker{
		func() relock.Locker { return session.Mutex("stock") },
		func() relock.Locker { return session.FairMutex("printer") },
		func() relock.Locker { return session.RWMutex("prices") },
		func() relock.Locker { return session.RWMutex("prices").RLocker() },
		func() relock.Locker { return relock.NewGroup(session.Mutex("from"), session.Mutex("to")) },
	} {
		for range workers {
			running.Go(func() {
				for ctx.Err() == nil {
					hold(ctx, lock(), pace)
					pause(ctx, rand.N(4*pace))
				}
			})
		}
	}
	running.Go(func() { keep(ctx, session) })
	running.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = session.Close(ctx)
}

// hold has a lock for about as long as pace: some callers give up soon, some only try. The errors
// are what the observer is here to see.
func hold(ctx context.Context, l relock.Locker, pace time.Duration) {
	f := func(ctx context.Context) error {
		pause(ctx, rand.N(2*pace))
		return nil
	}
	if rand.IntN(4) == 0 {
		_, _ = relock.TryDo(ctx, l, f)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pace+rand.N(40*pace))
	defer cancel()
	_ = relock.Do(ctx, l, f)
}

// keep has a lock for long, so that there is something to renew, and to lose.
func keep(ctx context.Context, session *relock.Session) {
	for ctx.Err() == nil {
		_ = relock.Do(ctx, session.Mutex("leader"), func(ctx context.Context) error {
			pause(ctx, time.Minute)
			return nil
		})
		pause(ctx, time.Second)
	}
}

// trouble forces the lock of the leader open every few seconds, and lets a Redis in memory
// refuse commands for a moment.
func trouble(ctx context.Context, session *relock.Session, memory *miniredis.Miniredis) {
	for ; ctx.Err() == nil; pause(ctx, 5*time.Second) {
		pause(ctx, time.Second)
		_, _ = session.ForceUnlock(ctx, "leader")
		pause(ctx, 2*time.Second)
		if memory != nil {
			memory.SetError("LOADING Redis is loading the dataset in memory")
			pause(ctx, lease/2)
			memory.SetError("")
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
