package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// A program starts while one of the three servers of its Redlock is down. It locks on the other two,
// and on the third as well when that is there.
func ExampleWithBackgroundStart() {
	var servers []*miniredis.Miniredis // which stand for three servers of Redis
	var addresses []string
	for range 3 {
		server, err := miniredis.Run()
		if err != nil {
			log.Fatal(err)
		}
		defer server.Close()
		servers, addresses = append(servers, server), append(addresses, server.Addr())
	}
	servers[2].Close() // it is down

	ctx := context.Background()
	var sessions []*relock.Session
	for _, address := range addresses {
		// With ForceSingleClient there is a client even if its first connection has failed.
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress:       []string{address},
			ForceSingleClient: true,
			DisableCache:      true, // only for miniredis
		})
		if client == nil {
			log.Fatal(err)
		}
		defer client.Close()
		session, err := relock.NewSession(ctx, client,
			relock.WithBackgroundStart(), relock.WithLease(3*time.Second))
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = session.Close(ctx) }()
		sessions = append(sessions, session)
	}

	hold, err := relock.NewRedlock(sessions, "ledger").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = sessions[2].Inspect(ctx, "ledger")
	fmt.Println("third server:", errors.Is(err, relock.ErrUnavailable))

	if err := servers[2].Restart(); err != nil {
		log.Fatal(err)
	}
	for !servers[2].Exists("ledger") { // at most about a third of the lease
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("all three:", hold.Err(), hold.Unlock(ctx))

	// Output:
	// third server: true
	// all three: <nil> <nil>
}
