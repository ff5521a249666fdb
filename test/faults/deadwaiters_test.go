package faults_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func init() { kit.Roles["faults-line"] = faultsLine }

// faultsLine is a process of which so many goroutines wait for a FairMutex. Each says when it has had it.
func faultsLine(args []string) { // address, name, goroutines
	s, _ := kit.ChildSession(args[0])
	n, err := strconv.Atoi(args[2])
	kit.ChildCheck(err)
	kit.ChildCheck(kit.Together(n, func(int) error {
		l := s.FairMutex(args[1])
		kit.ChildCheck(l.Lock(kit.Background))
		kit.ChildCheck(l.Unlock(kit.Background))
		fmt.Println("had")
		return nil
	}))
}

// lineUp starts a process with so many waiters, and returns when they are in line.
func lineUp(t testing.TB, s *redistest.Server, name string, n int) *redistest.Proc {
	t.Helper()
	child := redistest.Child(t, "faults-line", s.Addr(), name, strconv.Itoa(n))
	redistest.Eventually(t, 3*kit.Soon, "all to queue", func() bool { return contenders(t, s, name) == n })
	return child
}

// Eight claims would be 40 s.
func TestFrozenProcessWithManyWaitersCostsOneClaim(t *testing.T) {
	t.Parallel()
	const waiters = 8
	s := redistest.Start(t)
	held, next := kit.NewSession(t, s).FairMutex("it"), kit.NewSession(t, s).FairMutex("it")
	kit.Lock(t, kit.Background, held)
	child := lineUp(t, s, "it", waiters)
	waiting := kit.Async(func() error { return next.Lock(kit.Background) })
	redistest.Eventually(t, kit.Soon, "the other to queue", func() bool { return contenders(t, s, "it") == waiters+1 })
	require.NoError(t, child.Freeze())
	kit.Unlock(t, kit.Background, held)
	require.NoError(t, kit.Receive(t, waiting, "who waits behind the frozen process"))
	require.NoError(t, child.Thaw())
	kit.Unlock(t, kit.Background, next)
	for range waiters {
		_, err := child.Expect("had", kit.Soon)
		require.NoError(t, err)
	}
	freed(t, s, "it")
}

// A process is killed, and 10,000 places of it are left. Releases cost the server what they cost without.
func TestReleaseIsAsCheapWhateverTheDeadLeft(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cost := func(name string, happens func(name string)) time.Duration { // to the server, of a hand-over
		const few, turns = 20, 120 // the first few find out about the dead
		a, b := kit.NewSession(t, s).FairMutex(name), kit.NewSession(t, s).FairMutex(name)
		kit.Lock(t, kit.Background, a)
		happens(name)
		var before time.Duration
		for i := range turns {
			if i == few {
				before = scriptTime(s)
			}
			got := kit.Async(func() error { return b.Lock(kit.Background) })
			redistest.Eventually(t, kit.Soon, "the other to queue", func() bool { return contenders(t, s, name) > 0 })
			kit.Unlock(t, kit.Background, a)
			require.NoError(t, kit.Receive(t, got, "the next turn"))
			a, b = b, a
		}
		kit.Unlock(t, kit.Background, a)
		return (scriptTime(s) - before) / (turns - few)
	}
	usual := cost("nobody died", func(string) {})
	dead := cost("many died", func(name string) { lineUp(t, s, name, 10000).Kill() })
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
