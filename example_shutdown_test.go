package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/relock-go/relock"
)

// At the end of a process, what is under way under a lock goes on, and nothing new begins. After
// the grace that ctx gives, the session closes all the same.
func ExampleSession_Shutdown() {
	session, done := newExampleSession()
	defer done()
	begun, finish, worked := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		worked <- relock.Do(context.Background(), session.Mutex("report"), func(ctx context.Context) error {
			close(begun)
			select {
			case <-finish:
			case <-ctx.Done(): // the lock is lost
			}
			return ctx.Err()
		})
	}()
	<-begun

	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- session.Shutdown(ctx) }()

	other := session.Mutex("other")
	var err error
	for err == nil { // until Shutdown has begun
		if err = other.Lock(context.Background()); err == nil {
			if err := other.Unlock(context.Background()); err != nil {
				log.Fatal(err)
			}
		}
	}
	fmt.Println("new work:", errors.Is(err, relock.ErrClosed))
	close(finish)
	fmt.Println("work under way:", <-worked)
	fmt.Println("shutdown:", <-ended)

	// Output:
	// new work: true
	// work under way: <nil>
	// shutdown: <nil>
}
