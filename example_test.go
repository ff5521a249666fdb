package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// connectToRedis stands for rueidis.NewClient with the address of a Redis server. Here
// it is one in memory.
func connectToRedis() (client rueidis.Client, done func()) {
	mini, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	client, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{mini.Addr()},
		ForceSingleClient: true, // only for miniredis
		DisableCache:      true,
	})
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { client.Close(); mini.Close() }
}

// newExampleSession starts the session of the examples.
func newExampleSession(opts ...relock.SessionOption) (session *relock.Session, done func()) {
	client, closeClient := connectToRedis()
	session, err := relock.NewSession(context.Background(), client, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return session, func() { _ = session.Close(context.Background()); closeClient() }
}

// A process has one session for all its locks. Closing it releases what is still held.
func ExampleSession() {
	client, done := connectToRedis()
	defer done()

	ctx := context.Background()
	session, err := relock.NewSession(ctx, client, relock.WithLease(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	lock := session.Mutex("report:2026")
	fmt.Println(lock.Lock(ctx), session.Close(ctx))
	fmt.Println(lock.Err())
	fmt.Println(lock.Lock(ctx))

	// Output:
	// <nil> <nil>
	// relock: lock "report:2026": lock lost: the session was closed
	// relock: lock "report:2026": session closed
}

// An application keeps its orders at keys such as order:1. A lock of that name would be at the
// same key, so locks get a prefix.
func ExampleWithPrefix() {
	client, done := connectToRedis()
	defer done()
	ctx := context.Background()
	client.Do(ctx, client.B().Hset().Key("order:1").FieldValue().FieldValue("status", "paid").Build())

	session, err := relock.NewSession(ctx, client)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	_, err = session.ForceUnlock(ctx, "order:1")
	fmt.Println(errors.Is(err, relock.ErrNotLock))

	prefixed, err := relock.NewSession(ctx, client, relock.WithPrefix("lock:"))
	if err != nil {
		log.Fatal(err)
	}
	defer prefixed.Close(ctx)
	lock := prefixed.Mutex("order:1") // at the key lock:order:1
	fmt.Println(lock.Name(), lock.Lock(ctx), lock.Unlock(ctx))

	// Output:
	// true
	// order:1 <nil> <nil>
}

// The context bounds the wait for the lock, and not the time for which it is held.
func ExampleMutex() {
	session, done := newExampleSession()
	defer done()

	lock := session.Mutex("goods:1000:1")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := lock.Lock(ctx); err != nil {
		fmt.Println("busy, or Redis is away:", err)
		return
	}
	fmt.Println("held:", lock.Err() == nil)

	// Unlock goes through even if ctx has ended meanwhile.
	if err := lock.Unlock(ctx); errors.Is(err, relock.ErrLost) {
		fmt.Println("somebody else may have had it as well:", err)
	}
	fmt.Println("held:", lock.Err() == nil)

	// Output:
	// held: true
	// held: false
}

// What Redis knows of a lock, whoever has it.
func ExampleSession_Inspect() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	show := func() {
		state, err := session.Inspect(ctx, "lock")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(state.Mode, len(state.Holders))
		for _, holder := range state.Holders {
			fmt.Println("ours:", holder.Session == session.ID(), "count:", holder.Count)
		}
	}
	err := relock.Do(ctx, session.Mutex("lock"), func(context.Context) error {
		show()
		return nil
	})
	show()
	fmt.Println(err)

	// Output:
	// exclusive 1
	// ours: true count: 1
	// unlocked 0
	// <nil>
}

// Goroutines get a FairMutex in the order in which they asked for it, on whichever
// machine they are.
func ExampleFairMutex() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	first := session.FairMutex("tickets")
	fmt.Println("first:", first.Lock(ctx))
	var waiting sync.WaitGroup
	for i := range 3 {
		waiting.Go(func() {
			_ = relock.Do(ctx, session.FairMutex("tickets"), func(context.Context) error {
				fmt.Println("number", i+1)
				return nil
			})
		})
		for { // until it has its place
			if state, _ := session.Inspect(ctx, "tickets"); state.Waiters == i+1 {
				break
			}
		}
	}
	err := first.Unlock(ctx)
	waiting.Wait()
	fmt.Println("first:", err)

	// Output:
	// first: <nil>
	// number 1
	// number 2
	// number 3
	// first: <nil>
}

// Any number of readers, or one writer.
func ExampleRWMutex() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	catalog := session.RWMutex("catalog")
	fmt.Println("readers:", catalog.RLock(ctx), catalog.RLock(ctx))
	ok, err := catalog.TryLock(ctx)
	fmt.Println("writer beside readers:", ok, err)
	fmt.Println("readers:", catalog.RUnlock(ctx), catalog.RUnlock(ctx))
	ok, err = catalog.TryLock(ctx)
	fmt.Println("writer alone:", ok, err)

	// Output:
	// readers: <nil> <nil>
	// writer beside readers: false <nil>
	// readers: <nil> <nil>
	// writer alone: true <nil>
}

// Do tells its function by its context when the lock is lost. Before a step that cannot be
// interrupted, look at how long the hold is certain.
func ExampleDo() {
	session, done := newExampleSession()
	defer done()

	err := relock.Do(context.Background(), session.Mutex("lock"), func(ctx context.Context) error {
		if at, ok := relock.HoldOf(ctx).Deadline(); !ok || time.Until(at) < 5*time.Second {
			return errors.New("too late to start")
		}
		fmt.Println("started")
		if _, err := session.ForceUnlock(ctx, "lock"); err != nil { // as if an operator had done it
			return err
		}
		<-ctx.Done()
		return fmt.Errorf("given up: %w", context.Cause(ctx))
	})
	fmt.Println(errors.Is(err, relock.ErrLost))

	// Output:
	// started
	// true
}

// Code that knows sync.Locker can use a distributed lock, here a sync.Cond. Mind that
// a Cond tells goroutines of this process only.
func ExampleSyncLocker() {
	session, done := newExampleSession()
	defer done()

	cond := sync.NewCond(relock.SyncLocker(session.Mutex("lock")))
	ready := false
	go func() {
		cond.L.Lock()
		defer cond.L.Unlock()
		ready = true
		cond.Broadcast()
	}()
	cond.L.Lock()
	for !ready {
		cond.Wait()
	}
	cond.L.Unlock()
	fmt.Println(ready)

	// Output:
	// true
}

// A lock with a lease of its own is not renewed: it ends on time, even if the holder
// does not notice.
func ExampleWithFixedLease() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	lock := session.Mutex("slot", relock.WithFixedLease(50*time.Millisecond))
	fmt.Println(lock.Lock(ctx))
	<-lock.Done()
	fmt.Println(lock.Unlock(ctx))

	// Output:
	// <nil>
	// relock: unlock "slot": lock lost: its lease ran out
}

// A job that any one instance may do, but not two at once.
func ExampleTryDo() {
	session, done := newExampleSession()
	defer done()

	instance := func(name string, job func()) {
		ran, err := relock.TryDo(context.Background(), session.Mutex("nightly-job"), func(context.Context) error {
			job()
			return nil
		})
		fmt.Println(name, ran, err)
	}
	instance("first", func() {
		instance("second", func() {})
	})

	// Output:
	// second false <nil>
	// first true <nil>
}

// A request takes its session and its owner along in its context: locks under one minted context
// belong to one owner. Code deep down, which has only that, locks what its caller may hold already;
// elsewhere it is called without the lock.
func ExampleFromContext() {
	session, done := newExampleSession()
	defer done()

	book := func(ctx context.Context, amount int) error { // in a package of its own
		session, ok := relock.FromContext(ctx)
		if !ok {
			return errors.New("book: no session in ctx")
		}
		return relock.Do(ctx, session.Mutex("account:7"), func(context.Context) error {
			fmt.Println("booked", amount)
			return nil
		})
	}
	transfer := func(ctx context.Context) error { // must not be interrupted between the two
		return relock.Do(ctx, session.Mutex("account:7"), func(ctx context.Context) error {
			return errors.Join(book(ctx, -30), book(ctx, 12))
		})
	}

	ctx := session.NewContext(context.Background()) // as a request arrives
	fmt.Println(book(ctx, 5), transfer(ctx))

	// Output:
	// booked 5
	// booked -30
	// booked 12
	// <nil> <nil>
}
