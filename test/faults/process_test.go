package faults_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The lock of a process that stands still past its lease goes to others. When the process goes on it
// finds out at its first look, disturbs nobody, and can lock again.
func TestProcessFrozenPastItsLeaseFindsItselfLost(t *testing.T) {
	const lease = 2 * time.Second
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		s := redistest.Start(t)
		client, other := kit.NewClient(t, s), kit.NewSession(t, s, relock.WithLease(lease))
		child := kit.FaultsChild(t, s, "", lease, k.Name)
		token := kit.TellToken(t, child)
		require.Equal(t, "true", kit.Tell(t, child, "write", "wrote"))
		require.NoError(t, child.Freeze())

		m := k.Holder(other)
		kit.Lock(t, kit.Background, m)
		held := kit.HoldersOf(t, other, "lock")
		require.Len(t, held, 1)
		fenced, ok := m.(kit.FencedLocker)
		if ok {
			require.Greater(t, fenced.FencingToken(), token)
			accepted, err := kit.FencedWrite(kit.Background, client, "resource", fenced.FencingToken())
			require.NoError(t, err)
			require.True(t, accepted)
		}

		require.NoError(t, child.Thaw())
		require.Equal(t, "true true", kit.Tell(t, child, "state", "state")) // at the first look, watchdog or not
		if ok {
			require.Equal(t, "false", kit.Tell(t, child, "write", "wrote"))
		}
		require.Equal(t, "false true", kit.Tell(t, child, "unlock", "unlocked"))
		require.Equal(t, held, kit.HoldersOf(t, other, "lock"))
		require.NoError(t, m.Err())
		require.NoError(t, child.Send("wait"))
		kit.Unlock(t, kit.Background, m)
		_, err := child.Expect("locked", kit.Soon)
		require.NoError(t, err)
	})
}

func init() { kit.Roles["faults-line"] = faultsLine }

// faultsLine is a process of which 4,000 goroutines wait for a FairMutex.
func faultsLine(args []string) { // address, name
	s, _ := kit.ChildSession(args[0])
	kit.ChildCheck(kit.Together(4000, func(int) error { return s.FairMutex(args[1]).Lock(kit.Background) }))
}

// A process is killed, and 4,000 places of it are left. Releases cost the server what they cost without.
func TestReleaseIsAsCheapWhateverTheDeadLeft(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cost := func(name string, happens func(name string)) time.Duration { // to the server, of a hand-over
		const few, turns = 20, 120 // the first few find out about the dead
		sessions := []*relock.Session{kit.NewSession(t, s), kit.NewSession(t, s)}
		locks := []*relock.FairMutex{sessions[0].FairMutex(name), sessions[1].FairMutex(name)}
		kit.Lock(t, kit.Background, locks[0])
		happens(name)
		var before time.Duration
		for i := range turns {
			if i == few {
				before = scriptTime(s)
			}
			held, next := i%2, 1-i%2
			got := kit.Async(func() error { return locks[next].Lock(kit.Background) })
			kit.Waits(t, sessions[next], name)
			kit.Unlock(t, kit.Background, locks[held])
			require.NoError(t, kit.Receive(t, got, "the next turn"))
		}
		return (scriptTime(s) - before) / (turns - few)
	}
	usual := cost("nobody died", func(string) {})
	dead := cost("many died", func(name string) {
		child := redistest.Child(t, "faults-line", s.Addr(), name)
		redistest.Eventually(t, 3*kit.Soon, "all to queue", func() bool { return contenders(t, s, name) == 4000 })
		child.Kill()
	})
	t.Log("server time of a turn:", usual, dead)
	require.Less(t, dead, 10*usual)
}

// scriptTime returns how long the server has spent on scripts.
func scriptTime(s *redistest.Server) time.Duration {
	_, text, _ := strings.Cut(s.Info("commandstats")["cmdstat_evalsha"], "usec=")
	text, _, _ = strings.Cut(text, ",")
	us, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(us) * time.Microsecond
}
