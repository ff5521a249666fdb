package faults_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
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
	const waiters = 10000
	s := redistest.Start(t)
	usual := costOfATurn(t, s, "nobody died", func() {})
	child := func() *redistest.Proc { return lineUp(t, s, "many died", waiters) }
	dead := costOfATurn(t, s, "many died", func() { child().Kill() })
	t.Log("server time of a turn:", usual, dead)
	require.Less(t, dead, 10*usual)
}

// costOfATurn returns the server time of a turn with a FairMutex that several goroutines of two processes want,
// after the first few since something happened while it was held.
func costOfATurn(t testing.TB, s *redistest.Server, name string, happens func()) time.Duration {
	t.Helper()
	const turns, few = 120, 20
	held := kit.NewSession(t, s).FairMutex(name)
	kit.Lock(t, kit.Background, held)
	happens()
	sessions := []*relock.Session{kit.NewSession(t, s), kit.NewSession(t, s)}
	var had atomic.Int64
	var before time.Duration // of the goroutine with the turn
	line := contenders(t, s, name)
	done := kit.Async(func() error {
		return kit.Together(4, func(i int) error {
			l, err := sessions[i%2].FairMutex(name), error(nil)
			for had.Load() < turns && err == nil {
				err = relock.Do(kit.Background, l, func(context.Context) error {
					if had.Add(1) == few {
						before = scriptTime(s)
					}
					return nil
				})
			}
			return err
		})
	})
	redistest.Eventually(t, kit.Soon, "the others to queue", func() bool { return contenders(t, s, name) == line+4 })
	kit.Unlock(t, kit.Background, held)
	require.NoError(t, <-done)
	return (scriptTime(s) - before) / time.Duration(had.Load()-few)
}

// scriptTime returns how long the server has spent on scripts.
func scriptTime(s *redistest.Server) time.Duration {
	_, text, _ := strings.Cut(s.Info("commandstats")["cmdstat_evalsha"], "usec=")
	text, _, _ = strings.Cut(text, ",")
	us, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(us) * time.Microsecond
}

// The user may no longer subscribe, and its connections were closed; its commands work. Other processes hand
// the lock over among themselves without a pause.
func TestProcessThatMayNotSubscribeHasTurns(t *testing.T) {
	t.Parallel()
	for _, k := range kit.LockKinds[:3] { // those that exclude themselves
		s := redistest.Start(t)
		do := func(args ...string) {
			_, err := s.Do(args...)
			require.NoError(t, err)
		}
		do("ACL", "SETUSER", "deaf", "on", ">pw", "~*", "&*", "+@all")
		deaf := kit.SessionOn(t, s.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "deaf", "pw" }))
		do("ACL", "SETUSER", "deaf", "-@pubsub", "+publish", "+pubsub")
		do("CLIENT", "KILL", "USER", "deaf")
		ctx, stop := context.WithCancel(kit.Background)
		defer stop()
		var turns atomic.Int64
		crowd := []*relock.Session{kit.NewSession(t, s), kit.NewSession(t, s)}
		over := kit.Async(func() error {
			return kit.Together(8, func(i int) error {
				l, err := k.Of(crowd[i%2]), error(nil)
				for ctx.Err() == nil && err == nil {
					err = relock.Do(kit.Background, l, func(context.Context) error {
						turns.Add(1)
						time.Sleep(time.Millisecond)
						return nil
					})
				}
				return err
			})
		})
		redistest.Eventually(t, kit.Soon, "the crowd to go on", func() bool { return turns.Load() > 100 })
		require.NotContains(t, s.Channels(), "relock_session:"+deaf.ID())
		l := k.Of(deaf)
		for range 2 {
			kit.Lock(t, kit.Background, l)
			kit.Unlock(t, kit.Background, l)
		}
		stop()
		require.NoError(t, <-over)
	}
}
