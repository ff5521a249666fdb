package faults_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestProcessFrozenPastItsLeaseFindsItselfLost(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	s := redistest.Start(t)
	client := kit.NewClient(t, s)
	child := kit.FaultsChild(t, s, "it", lease)
	token := kit.TellToken(t, child)
	require.Equal(t, "true", kit.Tell(t, child, "write", "wrote"))
	require.NoError(t, child.Freeze())

	m := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")
	kit.Lock(t, kit.Background, m)
	require.Greater(t, m.FencingToken(), token)
	held := holderID(t, s, "it")
	ok, err := kit.FencedWrite(kit.Background, client, "resource", m.FencingToken())
	require.NoError(t, err)
	require.True(t, ok)

	require.NoError(t, child.Thaw())
	require.Equal(t, "true true", kit.Tell(t, child, "state", "state")) // at the first look, watchdog or not
	require.Equal(t, "false", kit.Tell(t, child, "write", "wrote"))
	require.Equal(t, "false true", kit.Tell(t, child, "unlock", "unlocked"))
	require.Equal(t, held, holderID(t, s, "it"))
	require.NoError(t, m.Err())

	kit.Unlock(t, kit.Background, m)
}

func TestFrozenProcessFindsOutOnceItGoesOn(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	s := redistest.Start(t)
	child := kit.FaultsChild(t, s, "it", lease)
	kit.TellToken(t, child)
	require.NoError(t, child.Freeze())
	freed(t, s, "it")
	require.NoError(t, child.Thaw())
	_, err := child.Expect("lost", kit.Soon)
	require.NoError(t, err)
	require.Equal(t, "false true", kit.Tell(t, child, "unlock", "unlocked"))
	kit.TellToken(t, child) // things go on
	require.Equal(t, "true false", kit.Tell(t, child, "unlock", "unlocked"))
}

func TestKilledHolderFreesTheLock(t *testing.T) {
	t.Parallel()
	const lease = 700 * time.Millisecond
	s := redistest.Start(t)
	m := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")
	child := kit.FaultsChild(t, s, "it", lease)
	token := kit.TellToken(t, child)
	waiting := kit.Async(func() error { return m.Lock(kit.Background) })
	time.Sleep(2 * lease) // it is renewed
	require.Empty(t, waiting)
	child.Kill()
	require.NoError(t, kit.Receive(t, waiting, "the lock of the killed process"))
	require.Greater(t, m.FencingToken(), token)
	kit.Unlock(t, kit.Background, m)
}

func TestKilledWaiterCostsNobodyAnything(t *testing.T) {
	t.Parallel()
	const lease, waiters = 30 * time.Second, 5
	s := redistest.Start(t)
	m := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")
	var children []*redistest.Proc
	kit.Lock(t, kit.Background, m)
	for range waiters {
		child := kit.FaultsChild(t, s, "it", lease)
		require.NoError(t, child.Send("wait"))
		children = append(children, child)
		redistest.Eventually(t, kit.Soon, "the child to queue", func() bool {
			return contenders(t, s, "it") == len(children)
		})
	}
	children[0].Kill()
	children[2].Kill()
	require.NoError(t, children[4].Freeze()) // is told, cannot answer, and costs a claim
	kit.Unlock(t, kit.Background, m)
	for _, i := range []int{1, 3} {
		_, err := children[i].Expect("locked", kit.Soon)
		require.NoError(t, err)
	}
	goesOn(t, m)
	require.NoError(t, children[4].Thaw())
	_, err := children[4].Expect("locked", kit.Soon)
	require.NoError(t, err)
}

// contenders returns how many contenders queue for a lock.
func contenders(t testing.TB, s *redistest.Server, name string) int {
	t.Helper()
	n, err := s.Do("ZCARD", "relock_queue:{"+name+"}")
	require.NoError(t, err)
	return int(n.(int64))
}
