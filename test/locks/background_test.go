package locks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// startsLater begins the session of a program that starts while its server may be down: there is a
// client all the same.
func startsLater(t testing.TB, server *redistest.Server, opts ...relock.SessionOption) *relock.Session {
	t.Helper()
	client, err := kit.Connect(server.Addr())
	require.NotNil(t, client)
	require.Equal(t, server.Running(), err == nil)
	t.Cleanup(client.Close)
	s, err := relock.NewSession(kit.Background, client, append(opts, relock.WithBackgroundStart())...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(kit.Background) })
	return s
}

// A Redlock that starts on two servers of three is on the third when that is there, and then needs
// neither of the others more than another.
func TestRedlockGainsAServerThatWasDownAtItsStart(t *testing.T) {
	t.Parallel()
	var servers []*redistest.Server
	for range 3 {
		servers = append(servers, redistest.Start(t))
	}
	servers[2].Kill()
	var sessions []*relock.Session
	for _, s := range servers {
		sessions = append(sessions, startsLater(t, s, relock.WithLease(10*time.Second)))
	}
	r := relock.NewRedlock(sessions, "lock")
	hold, err := r.Acquire(kit.Background)
	require.NoError(t, err)
	_, err = sessions[2].Inspect(kit.Background, "lock")
	require.ErrorIs(t, err, relock.ErrUnavailable)

	require.NoError(t, servers[2].Restart())
	client := kit.NewClient(t, servers[2])
	redistest.Eventually(t, kit.Soon, "the lock to be taken on the third server", func() bool { return kit.Exists(t, client, "lock") })
	servers[0].Kill()
	before := pttl(t, client, "lock")
	redistest.Eventually(t, kit.Soon, "the rest to be renewed", func() bool {
		now := pttl(t, client, "lock")
		renewed := now > before
		before = now
		return renewed
	})
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(kit.Background))
	require.False(t, kit.Exists(t, client, "lock"))
	require.NoError(t, relock.Do(kit.Background, r, func(context.Context) error { return nil }))
}

// Many goroutines wait for a server that is not there yet, and all get their turn; nothing is left
// of those that gave up.
func TestWaitersOfASessionThatHasNotStartedGetTheirTurn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	s := startsLater(t, server)
	const each = 8
	counts := make([]int, len(kinds))
	var waiters []<-chan error
	for i, k := range kinds {
		if k.servers > 1 {
			continue
		}
		for range each {
			waiters = append(waiters, kit.Async(func() error {
				ctx, cancel := context.WithTimeout(kit.Background, time.Millisecond)
				defer cancel()
				l := k.on(s, k.name)
				if err := l.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("locked without a server: %w", err)
				}
				return relock.Do(kit.Background, l, func(context.Context) error {
					if !k.reads {
						counts[i]++
					}
					return nil
				})
			}))
		}
	}
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, server.Restart())
	for _, w := range waiters {
		require.NoError(t, kit.Receive(t, w, "a waiter"))
	}
	client := kit.NewClient(t, server)
	for i, k := range kinds {
		if k.servers == 1 && !k.reads {
			require.Equal(t, each, counts[i], k.name)
		}
	}
	nothingLeft(t, client)
}
