package relock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestCloseReleasesEverything(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at), newClient(t, at) // with a lease of 30 s
		owner := s.NewContext(background)
		var held []*relock.Mutex
		for i := range 250 {
			m := s.Mutex(fmt.Sprint("lock-", i), [][]relock.LockOption{nil, {relock.WithLease(time.Hour)}}[i%2]...)
			lock(t, []context.Context{background, owner}[i%2], m)
			held = append(held, m)
		}
		lock(t, owner, held[1])
		require.NoError(t, s.Close(background))
		require.True(t, isClosed(s.Done()))
		require.Empty(t, keys(t, client), "released by the time Close returns")
		for i, m := range held {
			require.True(t, isClosed(m.Done()))
			require.ErrorIs(t, m.Err(), relock.ErrLost)
			require.NotZero(t, m.FencingToken())
			require.ErrorIs(t, m.Unlock([]context.Context{background, owner}[i%2]), relock.ErrLost)
		}
		require.ErrorIs(t, held[1].Unlock(owner), relock.ErrLost)
		require.ErrorIs(t, held[1].Unlock(owner), relock.ErrNotHeld)
	})
}

func TestCloseFreesTheLocksForOthersAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other := newSession(t, at), newSession(t, at)
		lock(t, background, s.Mutex("lock"))
		m := other.Mutex("lock")
		got := async(func() error { return m.Lock(background) })
		awaited(t, newClient(t, at), "lock")
		start := time.Now()
		require.NoError(t, s.Close(background))
		require.NoError(t, receive(t, got, "the other to get in"))
		require.Less(t, time.Since(start), quickly)
		unlock(t, background, m)
	})
}

func TestCloseEndsWaiting(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other := newSession(t, at), newSession(t, at)
		lock(t, background, s.Mutex("here"))
		lock(t, background, other.Mutex("there"))
		var results []<-chan error
		for i := range 4 { // the first for "there" waits for Redis, the others in queues
			for _, name := range []string{"here", "there"} {
				m := s.Mutex(name)
				ctx := []context.Context{background, s.NewContext(background)}[i%2]
				results = append(results, async(func() error { return m.Lock(ctx) }))
			}
		}
		queued(t, s, "here", 4)
		queued(t, s, "there", 3)
		require.NoError(t, s.Close(background))
		for _, r := range results {
			err := receive(t, r, "a waiter to end")
			require.ErrorIs(t, err, relock.ErrClosed)
			require.NotErrorIs(t, err, context.Canceled)
		}
		require.Len(t, holdersOf(t, other, "there"), 1)
	})
}

// Waiters that nothing else would wake: they wait for the unlock of a lost hold.
func TestCloseEndsTheWaitForALateUnlock(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		m := s.Mutex("lock")
		lock(t, background, m)
		forceUnlock(t, s, m)
		waiter := async(func() error { return m.Lock(background) })
		queued(t, s, "lock", 1)
		require.NoError(t, receive(t, async(func() error { return s.Close(background) }), "Close to end"))
		require.ErrorIs(t, receive(t, waiter, "the waiter to end"), relock.ErrClosed)
		require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
	})
}

func TestAfterCloseNothingIsTaken(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		client := newClient(t, at)
		s := sessionOn(t, client)
		m, owner := s.Mutex("lock"), s.NewContext(background)
		require.NoError(t, s.Close(background))
		for _, ctx := range []context.Context{background, owner} {
			require.ErrorIs(t, m.Lock(ctx), relock.ErrClosed)
			ok, err := m.TryLock(ctx)
			require.False(t, ok)
			require.ErrorIs(t, err, relock.ErrClosed)
			require.ErrorIs(t, m.Unlock(ctx), relock.ErrNotHeld)
			require.ErrorIs(t, s.Mutex("other").Lock(ctx), relock.ErrClosed)
		}
		_, err := s.Inspect(background, "lock")
		require.ErrorIs(t, err, relock.ErrClosed)
		_, err = s.ForceUnlock(background, "lock")
		require.ErrorIs(t, err, relock.ErrClosed)
		require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
		from, ok := relock.FromContext(owner)
		require.True(t, ok)
		require.Same(t, s, from)
		require.Empty(t, keys(t, client))
		lock(t, background, sessionOn(t, client).Mutex("lock")) // the client is the caller's, and open
	})
}

func TestCloseLeavesNoSubscription(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	s, other := newSession(t, server), newSession(t, server)
	for i := range 5 { // some channels
		name := fmt.Sprint("lock-", i)
		held := other.Mutex(name)
		lock(t, background, held)
		m := s.Mutex(name)
		got := async(func() error { return m.Lock(background) })
		awaited(t, client, name)
		unlock(t, background, held)
		require.NoError(t, receive(t, got, "the waiter to get in"))
	}
	require.NoError(t, other.Close(background))
	require.NoError(t, s.Close(background))
	redistest.Eventually(t, soon, "the subscriptions to end", func() bool {
		return len(server.Channels()) == 0 && server.PubSubClients() == 0
	})
	require.Empty(t, keys(t, client))
}

func TestCloseIsIdempotentAndConcurrent(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at), newClient(t, at)
		lock(t, background, s.Mutex("lock"))
		require.NoError(t, together(8, func(int) error {
			if err := s.Close(background); err != nil {
				return err
			}
			n, err := client.Do(background, client.B().Exists().Key("lock").Build()).AsInt64()
			if n != 0 {
				return errors.New("Close has returned before the lock was released")
			}
			return err
		}))
		require.NoError(t, s.Close(background))
		require.NoError(t, s.Close(cancelled()), "it is closed already")
	})
}

// Goroutines that lock, try, unlock and ask while the session closes get an answer,
// and leave nothing.
func TestCloseAmidTraffic(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		client := newClient(t, at)
		for range 10 {
			s := sessionOn(t, client)
			done := async(func() error {
				return together(16, func(i int) error {
					m, ctx := s.Mutex(fmt.Sprint("lock-", i%3)), background
					if i%4 == 0 {
						ctx = s.NewContext(ctx)
					}
					for {
						err := m.Lock(ctx)
						if i%5 == 0 && err == nil {
							_, err = s.Inspect(ctx, m.Name())
							err = ignore(err, relock.ErrClosed)
						}
						if err != nil {
							return ignore(err, relock.ErrClosed)
						}
						if err := ignore(m.Unlock(ctx), relock.ErrLost); err != nil {
							return err
						}
					}
				})
			})
			time.Sleep(5 * time.Millisecond)
			require.NoError(t, s.Close(background))
			require.NoError(t, receive(t, done, "every goroutine to notice"))
			require.Empty(t, keys(t, client))
		}
	})
}

// ignore returns err unless it is the one that is expected.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// Close does not wait longer than its caller wants to, and goes on all the same.
func TestCloseUnderAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy, client := redistest.NewProxy(t, server.Addr()), newClient(t, server)
	s := newSession(t, proxy)
	m := s.Mutex("lock")
	lock(t, background, m)
	proxy.Stall(true)
	ctx, cancel := context.WithTimeoutCause(background, 50*time.Millisecond, errStop)
	defer cancel()
	err := s.Close(ctx)
	wantStopped(t, err, context.DeadlineExceeded)
	require.True(t, isClosed(s.Done()))
	require.ErrorIs(t, m.Lock(background), relock.ErrClosed)
	lostIn(t, quickly, m) // whether Redis knows or not
	proxy.Stall(false)
	require.NoError(t, s.Close(background))
	require.False(t, exists(t, client, "lock"))
}

// Redis is gone: Close says that the locks could not be released, and ends.
func TestCloseWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server, relock.WithWatchdog(time.Second))
	m := s.Mutex("lock")
	lock(t, background, m)
	server.Kill()
	err := receive(t, async(func() error { return s.Close(background) }), "Close to end")
	require.Error(t, err)
	require.Contains(t, err.Error(), `"lock"`)
	require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
	require.Equal(t, err, s.Close(background), "the same answer every time")
}
