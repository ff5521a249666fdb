package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestRWMutexOfAKilledProcessIsFreeWithinItsLease(t *testing.T) {
	const lease = 700 * time.Millisecond
	eachPair(t, func(t *testing.T, holder, waiter side) {
		server := redistest.Start(t)
		s := kit.NewSession(t, server)
		child := rwChild(t, server, lease)
		for _, which := range []string{"1", "2"} {
			kit.Tell(t, child, "lock "+string(holder)+which, "locked")
			if holder == writing {
				break
			}
		}
		m := waiter.of(s.RWMutex("lock"))
		got := kit.Async(func() error { return m.Lock(kit.Background) })
		wants(t, server, waiter)
		time.Sleep(2 * lease) // it is renewed
		require.Empty(t, got, "held")
		child.Kill()
		killed := time.Now()
		require.NoError(t, kit.Receive(t, got, "the lock of the killed process"))
		require.Less(t, time.Since(killed), lease+kit.Quickly)
		require.NoError(t, m.Err())
		kit.Unlock(t, kit.Background, m)
		mustBeQuiet(t, kit.NewClient(t, server), "lock", s)
	})
}

// Readers of other processes go on and renew what is theirs: its own lease, and the
// key of the lock. Whoever of them leaves last opens the lock at once, and if that was
// before the dead one's lease has ended, it opens with that.
func TestRWMutexShareOfAKilledReaderEndsWithItsOwnLease(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	for what, late := range map[string]bool{"others leave later": true, "others leave before": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client := kit.NewClient(t, server)
			living, writer := kit.NewSession(t, server), kit.NewSession(t, server) // with a lease of 30 s
			reader, w := living.RWMutex("lock").RLocker(), writer.RWMutex("lock")
			child := rwChild(t, server, lease)
			kit.Lock(t, kit.Background, reader)
			kit.Tell(t, child, "lock reader2", "locked")
			require.Len(t, kit.HoldersOf(t, living, "lock"), 2)
			child.Kill()
			killed := time.Now()
			if late {
				redistest.Eventually(t, kit.Soon, "its lease to end", func() bool { return len(leasesOf(t, server)) == 1 })
				require.False(t, kit.TryLock(t, kit.Background, w), "the other one reads")
				require.NoError(t, reader.Err())
			}
			got := kit.Async(func() error { return w.Lock(kit.Background) })
			wants(t, server, writing)
			require.Empty(t, got)
			kit.Unlock(t, kit.Background, reader)
			left := time.Now()
			require.NoError(t, kit.Receive(t, got, "the writer to get in"))
			since := killed
			if late {
				since = left
			}
			require.Less(t, time.Since(since), lease+kit.Quickly, "much less than the other's lease")
			kit.Unlock(t, kit.Background, w)
			mustBeQuiet(t, client, "lock", living, writer)
		})
	}
}

// leasesOf returns the keys of the leases of readers.
func leasesOf(t testing.TB, s *redistest.Server) []any {
	t.Helper()
	reply, err := s.Do("KEYS", "{lock}:*:rwlock_timeout:*")
	require.NoError(t, err)
	return reply.([]any)
}

// A writer that queues is killed, or frozen: it stops new readers no longer, or until it has not
// looked for 5 s. Those that read already are not disturbed.
func TestRWMutexDeadWaitingWriterStopsNoReaders(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(t *testing.T, p *redistest.Proc){
		"killed": func(t *testing.T, p *redistest.Proc) { p.Kill() },
		"frozen": func(t *testing.T, p *redistest.Proc) { require.NoError(t, p.Freeze()) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s, other := kit.NewSession(t, server), kit.NewSession(t, server)
			held, next := s.RWMutex("lock").RLocker(), other.RWMutex("lock").RLocker()
			kit.Lock(t, kit.Background, held)
			child := rwChild(t, server, 30*time.Second)
			require.NoError(t, child.Send("wait writer2"))
			wants(t, server, writing)
			end(t, child)
			start := time.Now()
			kit.Lock(t, kit.Background, next)
			t.Log("readers were stopped for", time.Since(start))
			require.NoError(t, held.Err())
			if what == "frozen" {
				require.NoError(t, child.Thaw())
			}
			kit.Unlock(t, kit.Background, held)
			kit.Unlock(t, kit.Background, next)
			if what == "frozen" {
				_, err := child.Expect("locked writer2", kit.Soon)
				require.NoError(t, err)
			}
			kit.Lock(t, kit.Background, s.RWMutex("lock"))
		})
	}
}

// A reader that queues is killed: the next writer does not wait for it.
func TestRWMutexDeadWaitingReaderStopsNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	held, next := s.RWMutex("lock"), other.RWMutex("lock")
	for range 3 {
		kit.Lock(t, kit.Background, held)
		child := rwChild(t, server, 30*time.Second)
		require.NoError(t, child.Send("wait reader2"))
		wants(t, server, reading)
		child.Kill()
		got := kit.Async(func() error { return next.Lock(kit.Background) })
		wants(t, server, writing)
		kit.Unlock(t, kit.Background, held)
		start := time.Now()
		require.NoError(t, kit.Receive(t, got, "the next writer"))
		require.Less(t, time.Since(start), kit.Quickly)
		kit.Unlock(t, kit.Background, next)
	}
}

// Write holds of several processes, some of which die holding the lock.
func TestRWMutexTokensIncreaseOverProcesses(t *testing.T) {
	t.Parallel()
	const lease = 500 * time.Millisecond
	server := redistest.Start(t)
	s := kit.NewSession(t, server, relock.WithLease(lease), relock.WithTenure(time.Hour))
	last := int64(0)
	for i := range 4 {
		child := kit.FaultsChild(t, server, "lock", lease, "write")
		token := kit.TellToken(t, child)
		require.Greater(t, token, last)
		last = token
		if i%2 == 0 {
			child.Kill()
		} else {
			kit.Tell(t, child, "unlock", "unlocked")
		}
		for range 3 { // the first asks Redis, the others pass it on
			m := s.RWMutex("lock")
			kit.Lock(t, kit.Background, m)
			require.Greater(t, m.FencingToken(), last)
			last = m.FencingToken()
			next := s.RWMutex("lock")
			got := kit.Async(func() error { return next.Lock(kit.Background) })
			redistest.Eventually(t, kit.Soon, "the next to wait", func() bool { _, n := peek.QueuedRW(s, "lock"); return n == 1 })
			kit.Unlock(t, kit.Background, m)
			require.NoError(t, kit.Receive(t, got, "the next"))
			require.Greater(t, next.FencingToken(), last)
			last = next.FencingToken()
			kit.Unlock(t, kit.Background, next)
		}
	}
}
