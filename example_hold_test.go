package relock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// uploads has a lock for each upload that a client works on, from one request to another: nobody
// waits in a function for the end of it.
type uploads struct {
	session *relock.Session

	mu    sync.Mutex // protects the following
	holds map[string]*relock.Hold
}

// begin answers the request that begins an upload.
func (u *uploads) begin(ctx context.Context, id string) error {
	hold, err := u.session.Mutex(id).TryAcquire(ctx)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.holds[id] = hold
	return nil
}

// end answers the one that ends it. The error is ErrLost if another may have worked on the upload
// as well.
func (u *uploads) end(ctx context.Context, id string) error {
	u.mu.Lock()
	hold := u.holds[id]
	delete(u.holds, id)
	u.mu.Unlock()
	return hold.Unlock(ctx) // of a nil Hold: ErrNotHeld
}

// A server keeps its holds in a map. Each hold ends only itself.
func ExampleHold() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	u := &uploads{session: session, holds: make(map[string]*relock.Hold)}
	fmt.Println("begin a:", u.begin(ctx, "a"))
	fmt.Println("begin b:", u.begin(ctx, "b"))
	fmt.Println("taken:", errors.Is(u.begin(ctx, "a"), relock.ErrTaken))
	fmt.Println("end a:", u.end(ctx, "a"))
	fmt.Println("not held:", errors.Is(u.end(ctx, "a"), relock.ErrNotHeld))
	fmt.Println("begin a:", u.begin(ctx, "a"))

	// Output:
	// begin a: <nil>
	// begin b: <nil>
	// taken: true
	// end a: <nil>
	// not held: true
	// begin a: <nil>
}

// Work under a hold has a context that ends when the hold is lost.
func ExampleHold_Context() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	hold, err := session.Mutex("report").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	work, cancel := hold.Context(ctx)
	defer cancel()
	if _, err := session.ForceUnlock(ctx, "report"); err != nil { // as if an operator had done it
		fmt.Println(err)
	}
	<-work.Done()
	fmt.Println(context.Cause(work))
	fmt.Println(hold.Unlock(ctx))

	// Output:
	// relock: hold "report": lock lost: it was forced open
	// relock: unlock "report": lock lost: it was forced open
}

// The hold outlives the function that acquires it, and goes where the work goes.
func ExampleMutex_Acquire() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	hold, err := session.Mutex("goods:1000:1").Acquire(ctx)
	if err != nil {
		fmt.Println("busy, or Redis is away:", err)
		return
	}
	finished := make(chan error)
	go func() { finished <- hold.Unlock(ctx) }()
	fmt.Println(<-finished, hold.Err())

	// Output:
	// <nil> relock: hold "goods:1000:1": lock not held
}

func ExampleMutex_TryAcquire() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	lock := session.Mutex("nightly-job")
	for range 2 {
		hold, err := lock.TryAcquire(ctx)
		switch {
		case errors.Is(err, relock.ErrTaken):
			fmt.Println("another does it")
		case err != nil:
			fmt.Println("try again:", err)
		default:
			fmt.Println("ours:", hold.Err() == nil)
			defer hold.Unlock(ctx)
		}
	}

	// Output:
	// ours: true
	// another does it
}

// Each hold has a token that is larger than those of all before it.
func ExampleFairMutex_Acquire() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	lock, last := session.FairMutex("tickets"), int64(0)
	for range 2 {
		hold, err := lock.Acquire(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(hold.Token() > last)
		last = hold.Token()
		if err := hold.Unlock(ctx); err != nil {
			fmt.Println(err)
		}
	}

	// Output:
	// true
	// true
}

// Acquire is for writing, and waits for the readers.
func ExampleRWMutex_Acquire() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	catalog := session.RWMutex("catalog")
	reader, err := catalog.RAcquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = catalog.TryAcquire(ctx)
	fmt.Println("writer beside the reader:", err)
	fmt.Println("reader:", reader.Unlock(ctx))
	writer, err := catalog.Acquire(ctx)
	fmt.Println("writer:", err, writer.Unlock(ctx))

	// Output:
	// writer beside the reader: relock: try lock "catalog": lock taken by another holder
	// reader: <nil>
	// writer: <nil> <nil>
}

// Readers have a hold each.
func ExampleRWMutex_RAcquire() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	catalog := session.RWMutex("catalog")
	one, err := catalog.RAcquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	two, err := catalog.TryRAcquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("one:", one.Unlock(ctx))
	fmt.Println("two is still held:", two.Err() == nil)
	fmt.Println("two:", two.Unlock(ctx))

	// Output:
	// one: <nil>
	// two is still held: true
	// two: <nil>
}

// At most two workers at a time, each with a number that no other one has.
func ExampleSemaphore_Acquire() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	workers := session.Semaphore("workers", 2)
	for range 2 {
		hold, err := workers.Acquire(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("worker", hold.Slot())
		defer hold.Unlock(ctx)
	}
	_, err := workers.TryAcquire(ctx)
	fmt.Println("no more:", errors.Is(err, relock.ErrTaken))

	// Output:
	// worker 0
	// worker 1
	// no more: true
}

// The members have holds too, which end with the group's.
func ExampleGroup_Acquire() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	hold, err := relock.NewGroup(session.Mutex("to"), session.Mutex("from")).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, member := range hold.Members() {
		fmt.Println(member.Name(), member.Token() > 0)
	}
	fmt.Println(hold.Unlock(ctx))

	// Output:
	// to true
	// from true
	// <nil>
}

// A majority of three servers has to agree.
func ExampleRedlock_Acquire() {
	var sessions []*relock.Session
	for range 3 {
		session, done := newExampleSession()
		defer done()
		sessions = append(sessions, session)
	}
	ctx := context.Background()

	hold, err := relock.NewRedlock(sessions, "ledger").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	until, ok := hold.Deadline()
	fmt.Println(ok, time.Until(until) > time.Second, hold.Unlock(ctx))

	// Output:
	// true true <nil>
}

// Code deep down has the hold that it works under from its context.
func ExampleHoldOf() {
	session, done := newExampleSession()
	defer done()

	show := func(ctx context.Context) error {
		hold := relock.HoldOf(ctx)
		fmt.Printf("%q %v\n", hold.Name(), hold.Err())
		return nil
	}
	_ = show(context.Background()) // its methods may be called all the same
	fmt.Println(relock.Do(context.Background(), session.Mutex("lock"), show))

	// Output:
	// "" relock: hold: lock not held
	// "lock" <nil>
	// <nil>
}

func ExampleDoValue() {
	session, done := newExampleSession()
	defer done()

	n, err := relock.DoValue(context.Background(), session.Mutex("counter"), func(context.Context) (int, error) {
		return 42, nil
	})
	fmt.Println(n, err)

	// Output:
	// 42 <nil>
}
