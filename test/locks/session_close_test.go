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

func TestCloseReleasesEverything(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at) // with a lease of 30 s
		owner := s.NewContext(kit.Background)
		var held []*relock.Mutex
		for i := range 250 {
			m := s.Mutex(fmt.Sprint("lock-", i), [][]relock.LockOption{nil, {relock.WithFixedLease(time.Hour)}}[i%2]...)
			kit.Lock(t, []context.Context{kit.Background, owner}[i%2], m)
			held = append(held, m)
		}
		kit.Lock(t, owner, held[1])
		require.NoError(t, s.Close(kit.Background))
		require.True(t, kit.IsClosed(s.Done()))
		require.Empty(t, kit.Keys(t, client), "released by the time Close returns")
		for i, m := range held {
			require.True(t, kit.IsClosed(m.Done()))
			require.ErrorIs(t, m.Err(), relock.ErrLost)
			require.NotZero(t, m.FencingToken())
			require.ErrorIs(t, m.Unlock([]context.Context{kit.Background, owner}[i%2]), relock.ErrLost)
		}
		require.ErrorIs(t, held[1].Unlock(owner), relock.ErrLost)
		require.ErrorIs(t, held[1].Unlock(owner), relock.ErrNotHeld)
	})
}

func TestAfterCloseNothingIsTaken(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		client := kit.NewClient(t, at)
		s := kit.SessionOn(t, client)
		m, owner := s.Mutex("lock"), s.NewContext(kit.Background)
		require.NoError(t, s.Close(kit.Background))
		for _, ctx := range []context.Context{kit.Background, owner} {
			require.ErrorIs(t, m.Lock(ctx), relock.ErrClosed)
			ok, err := m.TryLock(ctx)
			require.False(t, ok)
			require.ErrorIs(t, err, relock.ErrClosed)
			require.ErrorIs(t, m.Unlock(ctx), relock.ErrNotHeld)
			require.ErrorIs(t, s.Mutex("other").Lock(ctx), relock.ErrClosed)
		}
		_, err := s.Inspect(kit.Background, "lock")
		require.ErrorIs(t, err, relock.ErrClosed)
		_, err = s.ForceUnlock(kit.Background, "lock")
		require.ErrorIs(t, err, relock.ErrClosed)
		require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
		from, ok := relock.FromContext(owner)
		require.True(t, ok)
		require.Same(t, s, from)
		require.Empty(t, kit.Keys(t, client))
		kit.Lock(t, kit.Background, kit.SessionOn(t, client).Mutex("lock")) // the client is the caller's, and open
	})
}

func TestCloseLeavesNoSubscription(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	for i := range 5 { // some channels
		name := fmt.Sprint("lock-", i)
		held := other.Mutex(name)
		kit.Lock(t, kit.Background, held)
		m := s.Mutex(name)
		got := kit.Async(func() error { return m.Lock(kit.Background) })
		kit.Awaited(t, client, name)
		kit.Unlock(t, kit.Background, held)
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
	}
	require.NoError(t, other.Close(kit.Background))
	require.NoError(t, s.Close(kit.Background))
	redistest.Eventually(t, kit.Soon, "the subscriptions to end", func() bool {
		return len(server.Channels()) == 0 && server.PubSubClients() == 0
	})
	require.Empty(t, kit.Keys(t, client))
}

func TestCloseIsIdempotentAndConcurrent(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		kit.Lock(t, kit.Background, s.Mutex("lock"))
		require.NoError(t, kit.Together(8, func(int) error {
			if err := s.Close(kit.Background); err != nil {
				return err
			}
			n, err := client.Do(kit.Background, client.B().Exists().Key("lock").Build()).AsInt64()
			if n != 0 {
				return errors.New("Close has returned before the lock was released")
			}
			return err
		}))
		require.NoError(t, s.Close(kit.Background))
		require.NoError(t, s.Close(kit.Cancelled()), "it is closed already")
	})
}

// Goroutines that lock, try, unlock and ask while the session closes get an answer,
// and leave nothing.
func TestCloseAmidTraffic(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			client := kit.NewClient(t, at)
			for range 5 {
				s := kit.SessionOn(t, client)
				shared := k.Of(s)
				done := kit.Async(func() error {
					return kit.Together(12, func(i int) (err error) {
						l, ctx := []relock.Locker{shared, k.Of(s), k.Holder(s)}[i%3], kit.Background
						if i%4 == 0 {
							ctx = s.NewContext(ctx)
						}
						for err == nil {
							if err = l.Lock(ctx); err == nil && i%5 == 0 {
								_, err = s.Inspect(ctx, "lock")
								err = ignore(err, relock.ErrClosed)
							}
							if err == nil {
								err = ignore(l.Unlock(ctx), relock.ErrLost)
							}
						}
						return ignore(err, relock.ErrClosed)
					})
				})
				time.Sleep(5 * time.Millisecond)
				require.NoError(t, s.Close(kit.Background))
				require.NoError(t, kit.Receive(t, done, "every goroutine to notice"))
				if k.Sha == kit.AcquireSHA { // who missed a grant is remembered for a while
					kit.GoneQuickly(t, client, "lock")
					continue
				}
				nothingLeft(t, client)
			}
		})
	})
}

// ignore returns err unless it is the one that is expected.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
