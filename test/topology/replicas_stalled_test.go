package topology_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Of two replicas that an acquisition waits for one hangs. It is undone and reported,
// and nothing is left on the primary, nor on the replica when that goes on; locks that
// wait for the other one only succeed.
func TestAnAcquisitionThatAReplicaDoesNotConfirmIsUndone(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 2)
	s := kit.NewSession(t, primary, relock.WithReplicas(2, 50*time.Millisecond))
	one := kit.NewSession(t, primary, relock.WithReplicas(1, kit.Soon))
	client := kit.NewClient(t, primary)
	locks := func(s *relock.Session) map[string]relock.Locker {
		return map[string]relock.Locker{
			"mutex": s.Mutex("mutex"),
			"fair":  s.FairMutex("fair"),
			"write": s.RWMutex("write"),
			"read":  s.RWMutex("read").RLocker(),
			"group": relock.NewGroup(s.Mutex("g1"), s.Mutex("g2")),
			"red":   relock.NewRedlock([]*relock.Session{s}, "red"),
		}
	}
	empty := func() {
		t.Helper()
		redistest.Eventually(t, kit.Quickly, "nothing to be left", func() bool { return len(kit.Keys(t, client)) == 0 })
	}
	each := func(s *relock.Session, f func(l relock.Locker)) {
		for what, l := range locks(s) {
			t.Log(what)
			f(l)
			empty()
		}
	}
	works := func(l relock.Locker) {
		kit.Lock(t, kit.Background, l)
		kit.Unlock(t, kit.Background, l)
		require.True(t, kit.TryLock(t, kit.Background, l))
		kit.Unlock(t, kit.Background, l)
	}
	redistest.Eventually(t, kit.Soon, "both replicas to be in time", func() bool {
		m := s.Mutex("mutex")
		err := m.Lock(kit.Background)
		if err == nil {
			kit.Unlock(t, kit.Background, m)
		}
		return err == nil
	})
	require.NoError(t, replicas[1].Freeze())
	each(s, func(l relock.Locker) {
		require.ErrorContains(t, l.Lock(kit.Background), "of 2 replicas")
		require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
		empty()
		ok, err := l.TryLock(kit.Background)
		require.False(t, ok)
		require.ErrorContains(t, err, "of 2 replicas")
		require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
	})
	each(one, works)
	require.NoError(t, replicas[1].Thaw())
	redistest.Eventually(t, kit.Soon, "nothing to be left on the replica", func() bool {
		reply, err := replicas[1].Do("KEYS", "[^r]*") // but fences
		all, _ := reply.([]any)
		return err == nil && len(all) == 0
	})
}

// A call that waits for replicas may be cancelled while it does. The write is undone.
func TestWaitingForReplicasCanBeCancelled(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	s := kit.NewSession(t, primary, relock.WithReplicas(1, kit.Soon))
	client := kit.NewClient(t, primary)
	locks := map[string]relock.Locker{
		"mutex": s.Mutex("mutex"), "fair": s.FairMutex("fair"), "write": s.RWMutex("write"), "read": s.RWMutex("read").RLocker(),
	}
	for _, l := range locks { // the scripts are known: else it would wait for the write of none
		kit.Lock(t, kit.Background, l)
		kit.Unlock(t, kit.Background, l)
	}
	require.NoError(t, replicas[0].Freeze())
	for name, l := range locks {
		ctx, cancel := context.WithCancelCause(kit.Background)
		got := kit.Async(func() error { return l.Lock(ctx) })
		redistest.Eventually(t, kit.Soon, "the write of "+name, func() bool { return kit.Exists(t, client, name) })
		cancel(kit.ErrStop)
		require.ErrorIs(t, kit.Receive(t, got, "the cancelled call"), kit.ErrStop)
		kit.GoneQuickly(t, client, name)
	}
	require.NoError(t, replicas[0].Thaw())
}
