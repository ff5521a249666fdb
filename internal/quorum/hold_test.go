package quorum

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/session"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

var background = context.Background()

// deployments starts n Redis servers, with a session on each, which are closed when the test ends.
func deployments(t *testing.T, n int) (all []*acquire.Node, servers []*miniredis.Miniredis) {
	t.Helper()
	scripts, err := wire.LoadScripts(os.DirFS("../../lua"))
	require.NoError(t, err)
	for i := range n {
		mini, client := redistest.Mini(t)
		s := session.New(client, acquire.Config{Scripts: scripts, Lease: time.Minute})
		require.NoError(t, s.Start(background))
		t.Cleanup(func() { require.NoError(t, s.Close(background)) })
		s.SetDeployment(fmt.Sprint("deployment ", i))
		all, servers = append(all, s.Node), append(servers, mini)
	}
	return all, servers
}

// has reports whether a deployment has a part of the hold.
func has(h *hold, i int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.parts[i] != nil
}

// take asks the first deployment for its part.
func take(h *hold) (bool, error) { return h.take(background, 0, 0, func(answer) {}) }

// A repair may get its part at the instant in which the hold ends.
func TestPartThatIsGrantedAfterTheEndIsGivenBack(t *testing.T) {
	t.Parallel()
	sessions, servers := deployments(t, 1)
	h := newHold(New(sessions, "a", acquire.LockConfig{}))
	h.end()
	got, err := take(h)
	require.NoError(t, err)
	require.False(t, got)
	require.False(t, has(h, 0))
	redistest.Eventually(t, time.Minute, "the release", func() bool { return !servers[0].Exists("a") })
}

// A deployment that loses its data may grant two requests of one hold.
func TestSecondPartOfADeploymentIsGivenBack(t *testing.T) {
	t.Parallel()
	sessions, servers := deployments(t, 1)
	h := newHold(New(sessions, "a", acquire.LockConfig{}))
	h.choose()
	_, err := take(h)
	require.NoError(t, err)
	require.True(t, has(h, 0))
	servers[0].Del("a")
	got, err := take(h)
	require.NoError(t, err)
	require.False(t, got)
	require.True(t, has(h, 0))
	redistest.Eventually(t, time.Minute, "the release", func() bool { return !servers[0].Exists("a") })
}

// A part that a repair gets ends with the others of a bounded hold.
func TestNoPartIsTakenWhenTheHoldIsOver(t *testing.T) {
	t.Parallel()
	sessions, servers := deployments(t, 1)
	h := newHold(New(sessions, "a", acquire.LockConfig{MaxHold: time.Hour}))
	h.since -= int64(time.Hour)
	got, err := take(h)
	require.NoError(t, err)
	require.False(t, got)
	require.False(t, servers[0].Exists("a"))
}

func TestLostMajorityIsTold(t *testing.T) {
	t.Parallel()
	sessions, servers := deployments(t, 3)
	r := New(sessions, "a", acquire.LockConfig{})
	lock, err := r.Take(background, nil, nil, true, false)
	require.NoError(t, err)
	h := of(lock)
	redistest.Eventually(t, time.Minute, "the third part", func() bool { return has(h, 0) && has(h, 1) && has(h, 2) })
	force := func(i int) {
		_, err := sessions[i].Proto.Force(background, "a")
		require.NoError(t, err)
	}
	force(0)
	require.Equal(t, local.Live, lock.State())
	force(1)
	select {
	case <-lock.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the loss is not told")
	}
	require.Equal(t, local.Lost, lock.State())
	require.ErrorIs(t, r.Release(background, lock, false), lockerr.ErrLost)
	redistest.Eventually(t, time.Minute, "the release of what was left", func() bool { return !servers[2].Exists("a") })
}

// A call that queues behind one that asks is told what that one has learnt, also after it has begun
// to wait.
func TestQueuedCallIsToldWhatTheOneBeforeHasLearnt(t *testing.T) {
	t.Parallel()
	sessions, _ := deployments(t, 3)
	r := New(sessions, "a", acquire.LockConfig{})
	first := &attempt{Redlock: r, c: new(acquire.Call), call: r.table.NewCall()}
	first.call.Name, first.call.For = r.owned.Name, first
	r.table.Lock(first.call, 1)
	ctx, cancel := context.WithCancel(background)
	got := make(chan error, 1)
	go func() {
		_, err := r.Take(ctx, nil, nil, true, false)
		got <- err
	}()
	redistest.Eventually(t, time.Minute, "the second call to queue", func() bool { return r.Queued() == 1 })
	time.Sleep(20 * time.Millisecond) // it waits now
	first.facts.Answered(nil)
	cancel()
	require.ErrorContains(t, <-got, "taken")
	r.table.Left(first.call, 1)
	r.table.Free(first.call)
}
