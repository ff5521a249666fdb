package locks_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The session reads, and asks whether another of its goroutines may.
func TestRWMutexLostReplyToAConfirmation(t *testing.T) {
	t.Parallel()
	server, proxy := kit.Proxied(t)
	s, w := kit.NewSession(t, proxy, relock.WithTenure(0)), kit.NewSession(t, server).RWMutex("lock")
	held, l := s.RWMutex("lock").RLocker(), s.RWMutex("lock").RLocker()
	kit.Lock(t, kit.Background, held)
	kit.Lock(t, kit.Background, l) // the server knows the script
	kit.Unlock(t, kit.Background, l)
	for range 10 {
		landed := kit.DropReplyOf(proxy, kit.ReadSHA)
		kit.Lock(t, kit.Background, l)
		kit.Receive(t, landed, "the reply to be lost")
		require.Len(t, kit.HoldersOf(t, s, "lock"), 1)
		kit.Unlock(t, kit.Background, l)
		require.NoError(t, held.Err())
		require.False(t, kit.TryLock(t, kit.Background, w))

		landed = kit.DropReplyOf(proxy, kit.ReadSHA)
		ok, err := l.TryLock(kit.Background)
		require.False(t, ok)
		require.Error(t, err)
		kit.Receive(t, landed, "the reply to be lost")
	}
	kit.Unlock(t, kit.Background, held)
	require.True(t, kit.TryLock(t, kit.Background, w))
}

// The owner of a write hold reads, goes on reading, and each of the replies to that is
// lost once.
func TestRWMutexLostRepliesToADowngrade(t *testing.T) {
	t.Parallel()
	server, proxy := kit.Proxied(t)
	s, other := kit.NewSession(t, proxy), kit.NewSession(t, server)
	warmUpRW(t, s)
	rw, owner, w := s.RWMutex("lock"), s.NewContext(kit.Background), other.RWMutex("lock")
	for range 5 {
		kit.Lock(t, owner, rw)
		for _, step := range []struct {
			sha string
			do  func(context.Context) error
		}{{kit.ReadSHA, rw.RLock}, {kit.ReleaseWriteSHA, rw.Unlock}} {
			landed := kit.DropReplyOf(proxy, step.sha)
			require.NoError(t, step.do(owner))
			kit.Receive(t, landed, "the reply to be lost")
			require.False(t, kit.TryLock(t, kit.Background, w))
		}
		require.Equal(t, relock.Shared, inspect(t, other, "lock").Mode)
		require.True(t, tryRead(t, w))
		landed := kit.DropReplyOf(proxy, kit.ReleaseReadSHA)
		kit.Unlock(t, owner, rw.RLocker())
		kit.Receive(t, landed, "the reply to be lost")
		require.True(t, kit.TryLock(t, kit.Background, w))
		kit.Unlock(t, kit.Background, w)
	}
	mustBeQuiet(t, kit.NewClient(t, server), "lock", s, other)
}

func TestRWMutexIsExactWhateverReplyIsLost(t *testing.T) {
	t.Parallel()
	const lease, workers = 2 * time.Second, 6
	server, proxy := kit.Proxied(t)
	client := kit.NewClient(t, server)
	var sessions []*relock.Session
	for i := range 2 {
		tenure := time.Duration(i) * 10 * time.Millisecond
		sessions = append(sessions, kit.NewSession(t, proxy, relock.WithLease(lease), relock.WithTenure(tenure)))
	}
	warmUpRW(t, sessions[0])
	var dropped atomic.Int64
	stop := make(chan struct{})
	dropper := kit.Async(func() struct{} {
		for {
			landed := proxy.DropReplies(func(request []byte) bool {
				return bytes.Contains(request, []byte("EVALSHA")) && rand.N(10) == 0
			})
			select {
			case <-landed:
				dropped.Add(1)
			case <-stop:
				return struct{}{}
			}
		}
	})
	var reads, writes atomic.Int64
	end := time.Now().Add(kit.Stress(t, 2*time.Second))
	err := kit.Together(workers, func(i int) error {
		rw := sessions[i%2].RWMutex("lock")
		for n := i; time.Now().Before(end); n++ {
			l, do, count := rw.RLocker(), crowd{client}.read, &reads
			if n%4 == 0 {
				l, do, count = rw, crowd{client}.write, &writes
			}
			if err := l.Lock(kit.Background); err != nil {
				return err
			}
			err := do()
			count.Add(1)
			if err := errors.Join(err, kit.LostOrNil(l.Unlock(kit.Background))); err != nil {
				return err
			}
		}
		return nil
	})
	close(stop)
	kit.Receive(t, dropper, "the dropper")
	require.NoError(t, err)
	require.EqualValues(t, writes.Load(), kit.Counted(t, client, "value"))
	require.Greater(t, dropped.Load(), int64(10))
	require.Greater(t, reads.Load(), int64(20))
	t.Logf("%d reads, %d writes, %d replies lost", reads.Load(), writes.Load(), dropped.Load())
	redistest.Eventually(t, lease+kit.Quickly, "nothing to be left", func() bool { return !kit.Exists(t, client, "lock") })
	mustBeQuiet(t, client, "lock", sessions...)
}
