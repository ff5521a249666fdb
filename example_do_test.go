package relock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// The token goes with the work, not with the handle: the latest hold taken through that may
// be another's.
func ExampleToken() {
	session, done := newExampleSession()
	defer done()

	store := &shelf{stock: 10} // refuses a token smaller than one it has seen
	err := relock.Do(context.Background(), session.Mutex("goods:1000:1"), func(ctx context.Context) error {
		stock, err := store.Stock(relock.Token(ctx))
		if err != nil {
			return err
		}
		return store.SetStock(stock-1, relock.Token(ctx))
	})
	fmt.Println(store.stock, err)

	// Output:
	// 9 <nil>
}

// Before a step that cannot be interrupted, look at how long the hold is certain.
func ExampleDeadline() {
	session, done := newExampleSession()
	defer done()

	err := relock.Do(context.Background(), session.Mutex("backup"), func(ctx context.Context) error {
		if at, ok := relock.Deadline(ctx); !ok || time.Until(at) < 5*time.Second {
			return errors.New("too late to start")
		}
		fmt.Println("started")
		return nil
	})
	fmt.Println(err)

	// Output:
	// started
	// <nil>
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

// A request takes its session and its owner along in its context. Code deep down, which has
// only that, locks what its caller may hold already; elsewhere it is called without the lock.
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

	ordinary := context.Background()
	err := relock.Do(ordinary, session.Mutex("account:7"), func(ctx context.Context) error {
		return session.Mutex("account:7").Lock(ctx) // nobody who may lock it again
	})
	fmt.Println(errors.Is(err, relock.ErrDeadlock))

	// Output:
	// booked 5
	// booked -30
	// booked 12
	// <nil> <nil>
	// true
}
