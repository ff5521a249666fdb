package relock_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The scripts of a side.
func (s side) acquireSHA() string {
	return map[side]string{reading: readSHA, writing: writeSHA}[s]
}

func (s side) releaseSHA() string {
	return map[side]string{reading: releaseReadSHA, writing: releaseWriteSHA}[s]
}

func (s side) renewSHA() string {
	return map[side]string{reading: renewReadSHA, writing: renewWriteSHA}[s]
}

func TestRWMutexLostReplyToAnAcquire(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, next side) {
		server, proxy := proxied(t)
		s, other := newSession(t, proxy), newSession(t, server) // with leases of 30 s
		warmUpRW(t, s)
		l, m := holder.of(s.RWMutex("lock")), next.of(other.RWMutex("lock"))
		for range 10 {
			landed := dropReplyOf(proxy, holder.acquireSHA())
			lock(t, background, l)
			receive(t, landed, "the reply to be lost")
			require.Len(t, holdersOf(t, other, "lock"), 1)
			require.Equal(t, 1, holdersOf(t, other, "lock")[0].Count)
			require.False(t, tryLock(t, background, m))
			unlock(t, background, l)
			lock(t, background, m)
			time.Sleep(20 * time.Millisecond) // what the session does about the lost reply goes on
			require.Len(t, holdersOf(t, other, "lock"), 1)
			require.NoError(t, m.Err())
			unlock(t, background, m)
		}
		mustBeQuiet(t, newClient(t, server), "lock", s, other)
	})
}

func TestRWMutexTryLockWhoseReplyIsLostLeavesNothing(t *testing.T) {
	eachSide(t, func(t *testing.T, who, other side) {
		server, proxy := proxied(t)
		s := newSession(t, proxy)
		client, m := newClient(t, server), other.of(newSession(t, server).RWMutex("lock"))
		warmUpRW(t, s)
		l := who.of(s.RWMutex("lock"))
		for range 10 {
			landed := dropReplyOf(proxy, who.acquireSHA())
			ok, err := l.TryLock(background)
			require.False(t, ok)
			require.Error(t, err)
			receive(t, landed, "the reply to be lost")
			goneQuickly(t, client, "lock")
			require.True(t, tryLock(t, background, m))
			unlock(t, background, m)
		}
		mustBeQuiet(t, client, "lock", s)
	})
}

// The session reads, and asks whether another of its goroutines may.
func TestRWMutexLostReplyToAConfirmation(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	s, w := newSession(t, proxy, relock.WithTenure(0)), newSession(t, server).RWMutex("lock")
	held, l := s.RWMutex("lock").RLocker(), s.RWMutex("lock").RLocker()
	lock(t, background, held)
	lock(t, background, l) // the server knows the script
	unlock(t, background, l)
	for range 10 {
		landed := dropReplyOf(proxy, confirmReadSHA)
		lock(t, background, l)
		receive(t, landed, "the reply to be lost")
		require.Len(t, holdersOf(t, s, "lock"), 1)
		unlock(t, background, l)
		require.NoError(t, held.Err())
		require.False(t, tryLock(t, background, w))

		landed = dropReplyOf(proxy, confirmReadSHA)
		ok, err := l.TryLock(background)
		require.False(t, ok)
		require.Error(t, err)
		receive(t, landed, "the reply to be lost")
	}
	unlock(t, background, held)
	require.True(t, tryLock(t, background, w))
}

func TestRWMutexLostReplyToARenewal(t *testing.T) {
	const lease = 3 * time.Second
	eachSide(t, func(t *testing.T, who, other side) {
		server, proxy := proxied(t)
		s, client := newSession(t, proxy, relock.WithWatchdog(lease)), newClient(t, server)
		m := other.of(newSession(t, server).RWMutex("lock"))
		l := who.of(s.RWMutex("lock"))
		renewed := func() {
			t.Helper()
			redistest.Eventually(t, soon, "some of the lease to be over", func() bool {
				return isClosed(l.Done()) || pttl(t, client, "lock") < lease*3/4
			})
			redistest.Eventually(t, soon, "a renewal", func() bool {
				return isClosed(l.Done()) || pttl(t, client, "lock") > lease*3/4
			})
		}
		lock(t, background, l)
		before, done := holdersOf(t, s, "lock"), l.Done()
		renewed() // the server knows the script
		for range 2 {
			receive(t, dropReplyOf(proxy, who.renewSHA()), "the reply to be lost")
		}
		renewed()
		require.False(t, isClosed(done))
		require.NoError(t, l.Err())
		require.Equal(t, before, holdersOf(t, s, "lock"))
		require.False(t, tryLock(t, background, m))
		unlock(t, background, l)
		require.True(t, tryLock(t, background, m))
	})
}

func TestRWMutexLostReplyToARelease(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, next side) {
		server, proxy := proxied(t)
		s, other := newSession(t, proxy), newSession(t, server)
		warmUpRW(t, s)
		l, m := holder.of(s.RWMutex("lock")), next.of(other.RWMutex("lock"))
		for range 10 {
			lock(t, background, l)
			got := async(func() error { return m.Lock(background) })
			landed := dropReplyOf(proxy, holder.releaseSHA())
			unlock(t, background, l)
			receive(t, landed, "the reply to be lost")
			require.NoError(t, receive(t, got, "the next holder"))
			require.Len(t, holdersOf(t, other, "lock"), 1)
			require.Equal(t, other.ID(), holdersOf(t, other, "lock")[0].Session)
			require.NoError(t, m.Err())
			unlock(t, background, m)
			require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		}
		mustBeQuiet(t, newClient(t, server), "lock", s, other)
	})
}

// The owner of a write hold reads, goes on reading, and each of the replies to that is
// lost once.
func TestRWMutexLostRepliesToADowngrade(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	s, other := newSession(t, proxy), newSession(t, server)
	warmUpRW(t, s)
	rw, owner, w := s.RWMutex("lock"), s.NewContext(background), other.RWMutex("lock")
	for range 5 {
		lock(t, owner, rw)
		for _, step := range []struct {
			sha string
			do  func(context.Context) error
		}{{readSHA, rw.RLock}, {releaseWriteSHA, rw.Unlock}} {
			landed := dropReplyOf(proxy, step.sha)
			require.NoError(t, step.do(owner))
			receive(t, landed, "the reply to be lost")
			require.False(t, tryLock(t, background, w))
		}
		require.Equal(t, relock.Shared, inspect(t, other, "lock").Mode)
		require.True(t, tryRead(t, w))
		landed := dropReplyOf(proxy, releaseReadSHA)
		unlock(t, owner, rw.RLocker())
		receive(t, landed, "the reply to be lost")
		require.True(t, tryLock(t, background, w))
		unlock(t, background, w)
	}
	mustBeQuiet(t, newClient(t, server), "lock", s, other)
}

func TestRWMutexIsExactWhateverReplyIsLost(t *testing.T) {
	t.Parallel()
	const lease, workers = 2 * time.Second, 6
	server, proxy := proxied(t)
	client := newClient(t, server)
	var sessions []*relock.Session
	for i := range 2 {
		tenure := time.Duration(i) * 10 * time.Millisecond
		sessions = append(sessions, newSession(t, proxy, relock.WithWatchdog(lease), relock.WithTenure(tenure)))
	}
	warmUpRW(t, sessions[0])
	var dropped atomic.Int64
	stop := make(chan struct{})
	dropper := async(func() struct{} {
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
	end := time.Now().Add(stress(t, 2*time.Second))
	err := together(workers, func(i int) error {
		rw := sessions[i%2].RWMutex("lock")
		for n := i; time.Now().Before(end); n++ {
			l, do, count := rw.RLocker(), crowd{client}.read, &reads
			if n%4 == 0 {
				l, do, count = rw, crowd{client}.write, &writes
			}
			if err := l.Lock(background); err != nil {
				return err
			}
			err := do()
			count.Add(1)
			if err := errors.Join(err, lostOrNil(l.Unlock(background))); err != nil {
				return err
			}
		}
		return nil
	})
	close(stop)
	receive(t, dropper, "the dropper")
	require.NoError(t, err)
	require.EqualValues(t, writes.Load(), counted(t, client, "value"))
	require.Greater(t, dropped.Load(), int64(10))
	require.Greater(t, reads.Load(), int64(20))
	t.Logf("%d reads, %d writes, %d replies lost", reads.Load(), writes.Load(), dropped.Load())
	redistest.Eventually(t, lease+quickly, "nothing to be left", func() bool { return !exists(t, client, "lock") })
	mustBeQuiet(t, client, "lock", sessions...)
}
