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
	if err := lock.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	if err := session.Close(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Err())
	fmt.Println(lock.Lock(ctx))

	// Output:
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

// Of two holders, the later one has the larger token. What the lock protects can tell
// from that who is late.
func ExampleMutex_FencingToken() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	var newest int64 // the largest token that the store has seen
	write := func(token int64, text string) {
		if token < newest {
			fmt.Println("refused:", text)
			return
		}
		newest = token
		fmt.Println("written:", text)
	}

	slow, fast := session.Mutex("file"), session.Mutex("file")
	if err := slow.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	token := slow.FencingToken()
	// The holder sleeps for too long, and the lock is given to somebody else.
	if _, err := session.ForceUnlock(ctx, "file"); err != nil {
		log.Fatal(err)
	}
	if err := fast.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	write(fast.FencingToken(), "by the one who has the lock")
	write(token, "by the one who had it")

	// Output:
	// written: by the one who has the lock
	// refused: by the one who had it
}

// Locks under one minted context belong to one owner: its functions may lock what
// their callers have locked already.
func ExampleSession_NewContext() {
	session, done := newExampleSession()
	defer done()
	account := session.Mutex("account:7")

	deposit := func(ctx context.Context, amount int) error {
		return relock.Do(ctx, account, func(context.Context) error {
			fmt.Println("deposit", amount)
			return nil
		})
	}
	handle := func(ctx context.Context) error {
		ctx = session.NewContext(ctx) // one owner for this request
		return relock.Do(ctx, account, func(ctx context.Context) error {
			return errors.Join(deposit(ctx, 30), deposit(ctx, 12))
		})
	}
	fmt.Println(handle(context.Background()))

	// Output:
	// deposit 30
	// deposit 12
	// <nil>
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
	lock := session.Mutex("lock")
	if err := lock.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	show()
	if err := lock.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	show()

	// Output:
	// exclusive 1
	// ours: true count: 1
	// unlocked 0
}
