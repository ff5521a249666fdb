package locks_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Guarantee 8: goroutines and connections do not grow with holds, names or waiters.
// The goroutines that call Lock are the test's own. It is not parallel, since it
// counts the goroutines of the whole process.
func TestMachineryDoesNotGrow(t *testing.T) {
	const names, waiters = 2000, 500
	server := redistest.Start(t)
	holder, s := kit.NewSession(t, server), kit.NewSession(t, server, relock.WithLease(3*time.Second))
	kit.WarmUp(t, holder)
	kit.WarmUp(t, s)
	clients := func() int {
		n, err := strconv.Atoi(server.Info("clients")["connected_clients"])
		require.NoError(t, err)
		return n
	}
	client := kit.NewClient(t, server)
	before, connected := runtime.NumGoroutine(), clients()
	require.NoError(t, kit.Together(8, func(i int) error {
		for n := i; n < names; n += 8 {
			if err := s.Mutex(fmt.Sprint("held-", n)).Lock(kit.Background); err != nil {
				return err
			}
		}
		return nil
	}))
	const slack = 20 // rueidis may go from one goroutine to a few for a connection
	redistest.Eventually(t, kit.Soon, "the goroutines of the test to end", func() bool {
		return runtime.NumGoroutine() <= before+slack
	})
	require.Equal(t, connected, clients(), "with %d holds", names)

	// Half of the waiters wait for one lock, each of the others for one of its own.
	for i := range waiters / 2 {
		kit.Lock(t, kit.Background, holder.Mutex(fmt.Sprint("taken-", i)))
	}
	ctx, cancel := context.WithCancelCause(kit.Background)
	results := make(chan error, waiters)
	for i := range waiters {
		m := s.Mutex(fmt.Sprint("taken-", max(0, i-waiters/2)))
		go func() { results <- m.Lock(ctx) }()
	}
	waiting(t, holder, fmt.Sprint("taken-", waiters/2-1), 1)
	kit.Queued(t, s, "taken-0", waiters/2)
	time.Sleep(time.Second) // for a few renewals
	require.LessOrEqual(t, runtime.NumGoroutine(), before+waiters+slack)
	require.Equal(t, connected, clients(), "with %d waiters", waiters)
	require.LessOrEqual(t, server.PubSubClients(), 2, "one for each session")
	cancel(kit.ErrStop)
	for range waiters {
		if err := kit.Receive(t, results, "the waiters to leave"); !errors.Is(err, kit.ErrStop) {
			t.Fatal(err)
		}
	}
	require.NoError(t, s.Close(kit.Background))
	require.NoError(t, holder.Close(kit.Background))
	require.Empty(t, kit.Keys(t, client))
}

// A session forgets what it does not need: the names that were used and the channels
// that were listened to.
func TestChannelsOfPastWaitsAreLeft(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, holder := kit.NewSession(t, server), kit.NewSession(t, server)
	client := kit.NewClient(t, server)
	for i := range 20 {
		name := fmt.Sprint("lock-", i)
		held, m := holder.Mutex(name), s.Mutex(name)
		kit.Lock(t, kit.Background, held)
		got := kit.Async(func() error { return m.Lock(kit.Background) })
		kit.Awaited(t, client, name)
		kit.Unlock(t, kit.Background, held)
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
		kit.Unlock(t, kit.Background, m)
	}
	redistest.Eventually(t, kit.Soon, "the sessions to listen to their own channels only", func() bool {
		return len(server.Channels()) == 2
	})
}
