package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// Goroutines get a FairMutex in the order in which they asked for it, on whichever
// machine they are.
func ExampleFairMutex() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	first := session.FairMutex("tickets")
	if err := first.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	var waiting sync.WaitGroup
	for i := range 3 {
		waiting.Go(func() {
			err := relock.Do(ctx, session.FairMutex("tickets"), func(context.Context) error {
				fmt.Println("number", i+1)
				return nil
			})
			if err != nil {
				log.Fatal(err)
			}
		})
		for { // until it has its place
			state, err := session.Inspect(ctx, "tickets")
			if err != nil {
				log.Fatal(err)
			}
			if state.Waiters == i+1 {
				break
			}
		}
	}
	if err := first.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	waiting.Wait()

	// Output:
	// number 1
	// number 2
	// number 3
}

// Any number of readers, or one writer.
func ExampleRWMutex() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	catalog := session.RWMutex("catalog")
	for range 2 {
		if err := catalog.RLock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	ok, err := catalog.TryLock(ctx)
	fmt.Println("writer beside readers:", ok, err)
	for range 2 {
		if err := catalog.RUnlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	ok, err = catalog.TryLock(ctx)
	fmt.Println("writer alone:", ok, err)

	// Output:
	// writer beside readers: false <nil>
	// writer alone: true <nil>
}

// Every kind of lock is a Locker, the read side of an RWMutex as well.
func ExampleLocker() {
	session, done := newExampleSession()
	defer done()

	for _, lock := range []relock.Locker{
		session.Mutex("a"), session.FairMutex("b"), session.RWMutex("c"), session.RWMutex("d").RLocker(),
	} {
		err := relock.Do(context.Background(), lock, func(context.Context) error { return lock.Err() })
		fmt.Println(err)
	}

	// Output:
	// <nil>
	// <nil>
	// <nil>
	// <nil>
}

// Do tells its function by its context when the lock is lost.
func ExampleDo() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	steps := func(ctx context.Context) error {
		for step := 1; ; step++ {
			if ctx.Err() != nil {
				return fmt.Errorf("given up before step %d: %w", step, context.Cause(ctx))
			}
			fmt.Println("step", step)
			if step == 2 { // as if an operator had done it
				if _, err := session.ForceUnlock(ctx, "lock"); err != nil {
					return err
				}
				<-ctx.Done()
			}
		}
	}
	err := relock.Do(ctx, session.Mutex("lock"), steps)
	fmt.Println(errors.Is(err, relock.ErrLost))

	// Output:
	// step 1
	// step 2
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
	if err := lock.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	<-lock.Done()
	fmt.Println(lock.Unlock(ctx))

	// Output:
	// relock: unlock "slot": lock lost: its lease ran out
}
