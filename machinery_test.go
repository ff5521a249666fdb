package relock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Guarantee 8: goroutines and connections do not grow with holds, names or waiters.
// The goroutines that call Lock are the test's own. It is not parallel, since it
// counts the goroutines of the whole process.
func TestMachineryDoesNotGrow(t *testing.T) {
	const names, waiters = 2000, 500
	server := redistest.Start(t)
	holder, s := newSession(t, server), newSession(t, server, relock.WithWatchdog(3*time.Second))
	warmUp(t, holder)
	warmUp(t, s)
	clients := func() int {
		n, err := strconv.Atoi(server.Info("clients")["connected_clients"])
		require.NoError(t, err)
		return n
	}
	client := newClient(t, server)
	before, connected := runtime.NumGoroutine(), clients()
	require.NoError(t, together(8, func(i int) error {
		for n := i; n < names; n += 8 {
			if err := s.Mutex(fmt.Sprint("held-", n)).Lock(background); err != nil {
				return err
			}
		}
		return nil
	}))
	const slack = 20 // rueidis may go from one goroutine to a few for a connection
	redistest.Eventually(t, soon, "the goroutines of the test to end", func() bool {
		return runtime.NumGoroutine() <= before+slack
	})
	require.Equal(t, connected, clients(), "with %d holds", names)

	// Half of the waiters wait for one lock, each of the others for one of its own.
	for i := range waiters / 2 {
		lock(t, background, holder.Mutex(fmt.Sprint("taken-", i)))
	}
	ctx, cancel := context.WithCancelCause(background)
	results := make(chan error, waiters)
	for i := range waiters {
		m := s.Mutex(fmt.Sprint("taken-", max(0, i-waiters/2)))
		go func() { results <- m.Lock(ctx) }()
	}
	awaited(t, client, fmt.Sprint("taken-", waiters/2-1))
	queued(t, s, "taken-0", waiters/2)
	time.Sleep(time.Second) // for a few renewals
	require.LessOrEqual(t, runtime.NumGoroutine(), before+waiters+slack)
	require.Equal(t, connected, clients(), "with %d waiters", waiters)
	require.LessOrEqual(t, server.PubSubClients(), 2, "one for each session")
	cancel(errStop)
	for range waiters {
		if err := receive(t, results, "the waiters to leave"); !errors.Is(err, errStop) {
			t.Fatal(err)
		}
	}
	require.NoError(t, s.Close(background))
	require.NoError(t, holder.Close(background))
	require.Empty(t, keys(t, client))
}

// A session forgets what it does not need: the names that were used and the channels
// that were listened to.
func TestChannelsOfPastWaitsAreLeft(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, holder := newSession(t, server), newSession(t, server)
	client := newClient(t, server)
	for i := range 20 {
		name := fmt.Sprint("lock-", i)
		held, m := holder.Mutex(name), s.Mutex(name)
		lock(t, background, held)
		got := async(func() error { return m.Lock(background) })
		awaited(t, client, name)
		unlock(t, background, held)
		require.NoError(t, receive(t, got, "the waiter to get in"))
		unlock(t, background, m)
	}
	redistest.Eventually(t, soon, "the sessions to listen to their own channels only", func() bool {
		return len(server.Channels()) == 2
	})
}
