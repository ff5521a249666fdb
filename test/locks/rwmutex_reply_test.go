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

// The scripts of a side.
func (s side) acquireSHA() string {
	return map[side]string{reading: kit.ReadSHA, writing: kit.WriteSHA}[s]
}

func (s side) releaseSHA() string {
	return map[side]string{reading: kit.ReleaseReadSHA, writing: kit.ReleaseWriteSHA}[s]
}

func (s side) renewSHA() string {
	return map[side]string{reading: kit.RenewReadSHA, writing: kit.RenewWriteSHA}[s]
}

func TestRWMutexLostReplyToAnAcquire(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, next side) {
		server, proxy := kit.Proxied(t)
		s, other := kit.NewSession(t, proxy), kit.NewSession(t, server) // with leases of 30 s
		warmUpRW(t, s)
		l, m := holder.of(s.RWMutex("lock")), next.of(other.RWMutex("lock"))
		for range 10 {
			landed := kit.DropReplyOf(proxy, holder.acquireSHA())
			kit.Lock(t, kit.Background, l)
			kit.Receive(t, landed, "the reply to be lost")
			require.Len(t, kit.HoldersOf(t, other, "lock"), 1)
			require.Equal(t, 1, kit.HoldersOf(t, other, "lock")[0].Count)
			require.False(t, kit.TryLock(t, kit.Background, m))
			kit.Unlock(t, kit.Background, l)
			kit.Lock(t, kit.Background, m)
			time.Sleep(20 * time.Millisecond) // what the session does about the lost reply goes on
			require.Len(t, kit.HoldersOf(t, other, "lock"), 1)
			require.NoError(t, m.Err())
			kit.Unlock(t, kit.Background, m)
		}
		mustBeQuiet(t, kit.NewClient(t, server), "lock", s, other)
	})
}

func TestRWMutexTryLockWhoseReplyIsLostLeavesNothing(t *testing.T) {
	eachSide(t, func(t *testing.T, who, other side) {
		server, proxy := kit.Proxied(t)
		s := kit.NewSession(t, proxy)
		client, m := kit.NewClient(t, server), other.of(kit.NewSession(t, server).RWMutex("lock"))
		warmUpRW(t, s)
		l := who.of(s.RWMutex("lock"))
		for range 10 {
			landed := kit.DropReplyOf(proxy, who.acquireSHA())
			ok, err := l.TryLock(kit.Background)
			require.False(t, ok)
			require.Error(t, err)
			kit.Receive(t, landed, "the reply to be lost")
			kit.GoneQuickly(t, client, "lock")
			require.True(t, kit.TryLock(t, kit.Background, m))
			kit.Unlock(t, kit.Background, m)
		}
		mustBeQuiet(t, client, "lock", s)
	})
}

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
		landed := kit.DropReplyOf(proxy, kit.ConfirmReadSHA)
		kit.Lock(t, kit.Background, l)
		kit.Receive(t, landed, "the reply to be lost")
		require.Len(t, kit.HoldersOf(t, s, "lock"), 1)
		kit.Unlock(t, kit.Background, l)
		require.NoError(t, held.Err())
		require.False(t, kit.TryLock(t, kit.Background, w))

		landed = kit.DropReplyOf(proxy, kit.ConfirmReadSHA)
		ok, err := l.TryLock(kit.Background)
		require.False(t, ok)
		require.Error(t, err)
		kit.Receive(t, landed, "the reply to be lost")
	}
	kit.Unlock(t, kit.Background, held)
	require.True(t, kit.TryLock(t, kit.Background, w))
}

func TestRWMutexLostReplyToARenewal(t *testing.T) {
	const lease = 3 * time.Second
	eachSide(t, func(t *testing.T, who, other side) {
		server, proxy := kit.Proxied(t)
		s, client := kit.NewSession(t, proxy, relock.WithLease(lease)), kit.NewClient(t, server)
		m := other.of(kit.NewSession(t, server).RWMutex("lock"))
		l := who.of(s.RWMutex("lock"))
		renewed := func() {
			t.Helper()
			redistest.Eventually(t, kit.Soon, "some of the lease to be over", func() bool {
				return kit.IsClosed(l.Done()) || pttl(t, client, "lock") < lease*3/4
			})
			redistest.Eventually(t, kit.Soon, "a renewal", func() bool {
				return kit.IsClosed(l.Done()) || pttl(t, client, "lock") > lease*3/4
			})
		}
		kit.Lock(t, kit.Background, l)
		before, done := kit.HoldersOf(t, s, "lock"), l.Done()
		renewed() // the server knows the script
		for range 2 {
			kit.Receive(t, kit.DropReplyOf(proxy, who.renewSHA()), "the reply to be lost")
		}
		renewed()
		require.False(t, kit.IsClosed(done))
		require.NoError(t, l.Err())
		require.Equal(t, before, kit.HoldersOf(t, s, "lock"))
		require.False(t, kit.TryLock(t, kit.Background, m))
		kit.Unlock(t, kit.Background, l)
		require.True(t, kit.TryLock(t, kit.Background, m))
	})
}

func TestRWMutexLostReplyToARelease(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, next side) {
		server, proxy := kit.Proxied(t)
		s, other := kit.NewSession(t, proxy), kit.NewSession(t, server)
		warmUpRW(t, s)
		l, m := holder.of(s.RWMutex("lock")), next.of(other.RWMutex("lock"))
		for range 10 {
			kit.Lock(t, kit.Background, l)
			got := kit.Async(func() error { return m.Lock(kit.Background) })
			landed := kit.DropReplyOf(proxy, holder.releaseSHA())
			kit.Unlock(t, kit.Background, l)
			kit.Receive(t, landed, "the reply to be lost")
			require.NoError(t, kit.Receive(t, got, "the next holder"))
			require.Len(t, kit.HoldersOf(t, other, "lock"), 1)
			require.Equal(t, other.ID(), kit.HoldersOf(t, other, "lock")[0].Session)
			require.NoError(t, m.Err())
			kit.Unlock(t, kit.Background, m)
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
		}
		mustBeQuiet(t, kit.NewClient(t, server), "lock", s, other)
	})
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
