package locks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// Somebody puts an entry into the queue whose grant timeout is 0, of a session that is subscribed. Two
// sessions held the lock then: the first had been told so although the key did not exist.
func TestEntryThatGrantsNothingMakesNobodyAHolder(t *testing.T) {
	for what, c := range map[string]struct {
		queue, entry string
		lock         func(s *relock.Session) relock.Locker
	}{
		"Mutex":  {"relock_queue:{a}", ":1 0", func(s *relock.Session) relock.Locker { return s.Mutex("a") }},
		"writer": {"relock_rwqueue:{a}", ":1:write 0", func(s *relock.Session) relock.Locker { return s.RWMutex("a") }},
		"reader": {"relock_rdqueue:{a}", ":1 0", func(s *relock.Session) relock.Locker { return s.RWMutex("a").RLocker() }},
	} {
		t.Run(what, func(t *testing.T) {
			server := redistest.Start(t)
			a, b, c2 := kit.NewSession(t, server), kit.NewSession(t, server), kit.NewSession(t, server)
			put(t, server, c.queue, c2.ID()+c.entry)
			mustExclude(t, server, c.lock(a), exclusiveBeside(b, what))
		})
	}
}

// A thousand entries of sessions that are gone are first in the queue of readers of a free lock.
func TestReaderBehindTheDeadHoldsNoFreeLock(t *testing.T) {
	server := redistest.Start(t)
	a, b := kit.NewSession(t, server), kit.NewSession(t, server)
	for i := range 1000 {
		put(t, server, "relock_rdqueue:{a}", fmt.Sprintf("00000001-0000-8000-8000-000000000000:%d", i+1))
	}
	mustExclude(t, server, a.RWMutex("a").RLocker(), b.RWMutex("a"))
}

// Both sides of a lock, and a Semaphore, go on beside an entry that nobody could have queued.
func TestEntryThatNobodyQueuedStopsNobody(t *testing.T) {
	for what, c := range map[string]struct {
		queue, entry string
		locks        func(s *relock.Session) []relock.Locker
	}{
		"readers' queue": {"relock_rdqueue:{a}", ":1 0", func(s *relock.Session) []relock.Locker {
			return []relock.Locker{s.RWMutex("a").RLocker(), s.RWMutex("a")}
		}},
		"permit without a limit": {"relock_queue:{a}", ":1", func(s *relock.Session) []relock.Locker {
			return []relock.Locker{s.Semaphore("a", 5)}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			server := redistest.Start(t)
			a, c2 := kit.NewSession(t, server), kit.NewSession(t, server)
			put(t, server, c.queue, c2.ID()+c.entry)
			ctx, stop := context.WithTimeout(kit.Background, kit.Soon)
			defer stop()
			for range 3 {
				for _, l := range c.locks(a) {
					require.NoError(t, l.Lock(ctx))
					require.NoError(t, l.Unlock(ctx))
				}
			}
		})
	}
}

func put(t testing.TB, server *redistest.Server, queue, entry string) {
	t.Helper()
	_, err := server.Do("ZADD", queue, "1", entry)
	require.NoError(t, err)
}

// exclusiveBeside returns a lock that excludes the one of that kind.
func exclusiveBeside(s *relock.Session, what string) relock.Locker {
	if what == "Mutex" {
		return s.Mutex("a")
	}
	return s.RWMutex("a")
}

// mustExclude checks that two locks that exclude each other are not held together.
func mustExclude(t testing.TB, server *redistest.Server, first, second relock.Locker) {
	t.Helper()
	ctx, stop := context.WithTimeout(kit.Background, 5*time.Second)
	defer stop()
	one, err := first.TryLock(ctx)
	require.NoError(t, err)
	n, err := server.Do("EXISTS", "a")
	require.NoError(t, err)
	two, err := second.TryLock(ctx)
	require.NoError(t, err)
	require.False(t, one && two, "EXISTS a: %v; %v and %v: two valid holds", n, first.Err(), second.Err())
}
