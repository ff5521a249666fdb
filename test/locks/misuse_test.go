package locks_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestUnusualNamesWork(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other, client := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewClient(t, at)
		for _, name := range []string{
			"x", " ", "a b", "line\nbreak", "nul\x00byte", "\xff\xfe", "größe", `"quoted"`, "*", "[a-z]?",
			"{tag}", "a{tag}b", "a{tag}{", "{tag}}", "{{tag}}", "a:b:1", strings.Repeat("x", 1024), "lost lock 0",
		} {
			m := s.Mutex(name)
			kit.Lock(t, kit.Background, m)
			require.True(t, kit.Exists(t, client, name), "%q is the key", name)
			waiter := other.Mutex(name)
			require.False(t, kit.TryLock(t, kit.Background, waiter))
			require.Len(t, kit.HoldersOf(t, other, name), 1)
			forceUnlock(t, other, m)
			require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
			kit.Lock(t, kit.Background, waiter)
			kit.Unlock(t, kit.Background, waiter)
		}
		require.Empty(t, kit.Keys(t, client))
	})
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	for what, o := range map[string]relock.SessionOption{
		"no lease":               relock.WithLease(0),
		"negative lease":         relock.WithLease(-time.Second),
		"too short a lease":      relock.WithLease(10*time.Millisecond - 1),
		"negative tenure":        relock.WithTenure(-1),
		"no replicas":            relock.WithReplicas(0, time.Second),
		"no time for replicas":   relock.WithReplicas(1, 0),
		"WAIT would not time it": relock.WithReplicas(1, time.Millisecond-1),
	} {
		s, err := relock.NewSession(kit.Background, client, relock.WithTenure(0), o, relock.WithTenure(0))
		require.ErrorIs(t, err, relock.ErrOption, what)
		require.Nil(t, s, what)
	}
	s := kit.SessionOn(t, client, nil, relock.WithTenure(0), nil)
	_, err := s.Mutex("lock", nil, relock.WithFixedLease(10*time.Millisecond), nil).TryLock(kit.Background)
	require.NotErrorIs(t, err, relock.ErrOption) // it may be too short for the machine
}

func TestNewSessionSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := relock.NewSession(kit.Background, nil)
	require.ErrorContains(t, err, "relock: ")
	require.ErrorContains(t, err, "client is nil")

	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	ctx, cancel := context.WithCancelCause(kit.Background)
	cancel(kit.ErrStop)
	_, err = relock.NewSession(ctx, client)
	wantStopped(t, err, context.Canceled)

	client.Close()
	_, err = relock.NewSession(kit.Background, client)
	require.ErrorContains(t, err, "relock: ")
}

func TestNewSessionIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	client := kit.NewClient(t, proxy)
	proxy.Stall(true)
	ctx, cancel := kit.ContextFor(50 * time.Millisecond)
	defer cancel()
	err := kit.Receive(t, kit.Async(func() error { _, err := relock.NewSession(ctx, client); return err }), "NewSession to end")
	wantStopped(t, err, context.DeadlineExceeded)
	proxy.Stall(false)
	kit.Lock(t, kit.Background, kit.SessionOn(t, client).Mutex("lock"))
}

// Regression: the token's key cannot be used, and the lock stayed behind without a
// holder, of a FairMutex for ever.
func TestATokenKeyOfAnotherTypeIsAnError(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		for kind, l := range map[string]relock.Locker{
			"mutex": s.Mutex("lock"), "fair": s.FairMutex("lock"), "write": s.RWMutex("lock"),
		} {
			order(t, client, "DEL", "relock_fence:{lock}")
			order(t, client, "RPUSH", "relock_fence:{lock}", "text")
			for range 3 {
				require.ErrorContains(t, l.Lock(kit.Background), "WRONGTYPE", kind)
				require.False(t, kit.Exists(t, client, "lock"), kind)
				_, err := l.TryLock(kit.Background)
				require.ErrorContains(t, err, "WRONGTYPE", kind)
				require.False(t, kit.Exists(t, client, "lock"), kind)
			}
			order(t, client, "DEL", "relock_fence:{lock}")
			kit.Lock(t, kit.Background, l)
			kit.Unlock(t, kit.Background, l)
		}
	})
}
