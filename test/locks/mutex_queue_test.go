package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Mutexes and FairMutexes of one name have one queue. A session's Mutexes have one place in it.
func TestMutexesOfManySessionsAreGrantedInOrderOfArrival(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const n = 12
	holder := kit.NewSession(t, server)
	held := holder.Mutex("lock")
	kit.Lock(t, kit.Background, held)
	order := make(chan int, n)
	for i := range n {
		s := kit.NewSession(t, server)
		var m relock.Locker = s.Mutex("lock")
		if i%3 == 0 {
			m = s.FairMutex("lock")
		}
		go func() {
			if m.Lock(kit.Background) == nil {
				order <- i
				_ = m.Unlock(kit.Background)
			}
		}()
		waiting(t, holder, "lock", i+1)
	}
	kit.Unlock(t, kit.Background, held)
	for i := range n {
		require.Equal(t, i, kit.Receive(t, order, "the next one to get in"))
	}
	mustBeQuiet(t, kit.NewClient(t, server), "lock")
}

// When its tenure is spent, a process with more goroutines that wait queues again behind others,
// in the script that releases. A hand-over is that script, and the one by which the winner has
// queued: a short section costs no renewal.
func TestASpentTenureQueuesAgainBehindOthersInTheSameScript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server, relock.WithTenure(0)), kit.NewSession(t, server, relock.WithTenure(0))
	kit.WarmUp(t, s)
	kit.WarmUp(t, other)
	for range 20 {
		first, theirs := s.Mutex("lock"), other.Mutex("lock")
		kit.Lock(t, kit.Background, first)
		order := make(chan string, 3)
		lock := func(m *relock.Mutex, who string) {
			if m.Lock(kit.Background) == nil {
				order <- who
			}
		}
		second, third := s.Mutex("lock"), s.Mutex("lock")
		go lock(second, "ours")
		kit.Queued(t, s, "lock", 1)
		go lock(third, "ours")
		kit.Queued(t, s, "lock", 2)
		before := server.CommandStats()
		go lock(theirs, "theirs")
		waiting(t, s, "lock", 1)
		kit.Unlock(t, kit.Background, first)
		require.Equal(t, "theirs", kit.Receive(t, order, "the other session to get in"))
		waiting(t, s, "lock", 1)
		kit.Unlock(t, kit.Background, theirs)
		require.Equal(t, "ours", kit.Receive(t, order, "the next of this session to get in"))
		for _, m := range []*relock.Mutex{second, third} { // whichever has it
			if m.Err() == nil {
				kit.Unlock(t, kit.Background, m)
			}
		}
		require.Equal(t, "ours", kit.Receive(t, order, "the last one to get in"))
		for _, m := range []*relock.Mutex{second, third} {
			if m.Err() == nil {
				kit.Unlock(t, kit.Background, m)
			}
		}
		after := server.CommandStats()
		for command, n := range map[string]int64{
			"hdel": 4, "hset": 3, // four releases, of which three have granted the lock
			"zadd":      3, // the other session and twice this one queue
			"pexpireat": 0, // no renewal
		} {
			require.Equal(t, n, after[command]-before[command], command)
		}
	}
	mustBeQuiet(t, kit.NewClient(t, server), "lock")
}

// By Redisson's rule a and {a} share a channel. A release of one must not let a waiter of the other in.
func TestLocksOfSimilarNamesExcludeOnlyTheirOwn(t *testing.T) {
	for kind, of := range map[string]func(s *relock.Session, name string) relock.Locker{
		"Mutex":     func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) },
		"FairMutex": func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) },
		"RWMutex":   func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			holder, waiter, stranger := kit.NewSession(t, srv), kit.NewSession(t, srv), kit.NewSession(t, srv)
			held, other := of(holder, "{a}"), of(stranger, "a")
			kit.Lock(t, kit.Background, held)
			kit.Lock(t, kit.Background, other)
			got := kit.Async(func() error { return of(waiter, "{a}").Lock(kit.Background) })
			client := kit.NewClient(t, srv)
			redistest.Eventually(t, kit.Soon, "the waiter to queue", func() bool {
				return kit.Exists(t, client, "relock_queue:{a}:") || kit.Exists(t, client, "relock_rwqueue:{a}:")
			})
			kit.Unlock(t, kit.Background, other)
			select {
			case <-got:
				t.Fatal("a waiter of {a} was let in by the release of a")
			case <-time.After(200 * time.Millisecond):
			}
			kit.Unlock(t, kit.Background, held)
			require.NoError(t, kit.Receive(t, got, "the waiter"))
		})
	}
}
