package faults_test

import (
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

func TestKilledHolderFreesTheLock(t *testing.T) {
	const lease = 700 * time.Millisecond
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		s := redistest.Start(t)
		m := k.Holder(kit.NewSession(t, s, relock.WithLease(lease)))
		child := kit.FaultsChild(t, s, "", lease, k.Name)
		token := kit.TellToken(t, child)
		waiting := kit.Async(func() error { return m.Lock(kit.Background) })
		time.Sleep(2 * lease) // it is renewed
		require.Empty(t, waiting)
		child.Kill()
		require.NoError(t, kit.Receive(t, waiting, "the lock of the killed process"))
		if m, ok := m.(kit.FencedLocker); ok {
			require.Greater(t, m.FencingToken(), token)
		}
		kit.Unlock(t, kit.Background, m)
	})
}
