package locks_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A recorder keeps every event.
type recorder struct {
	relock.NopObserver
	mu       sync.Mutex // protects the following
	acquired []relock.AcquireEvent
	released []relock.ReleaseEvent
	lost     []relock.LostEvent
	renewed  []relock.RenewEvent
}

func record[E any](r *recorder, list *[]E, e E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, e)
}

func (r *recorder) Acquired(_ context.Context, e relock.AcquireEvent) { record(r, &r.acquired, e) }

func (r *recorder) Released(_ context.Context, e relock.ReleaseEvent) { record(r, &r.released, e) }

func (r *recorder) Lost(e relock.LostEvent) { record(r, &r.lost, e) }

func (r *recorder) Renewed(e relock.RenewEvent) { record(r, &r.renewed, e) }

// counts returns how many events of each kind there were.
func (r *recorder) counts() [4]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return [4]int{len(r.acquired), len(r.released), len(r.lost), len(r.renewed)}
}

func observed(t *testing.T, at kit.Addressed, opts ...relock.SessionOption) (*relock.Session, *recorder) {
	t.Helper()
	r := new(recorder)
	return kit.NewSession(t, at, append(opts, relock.WithObserver(r))...), r
}

func TestObserverSeesAcquisitionsAndReleases(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, r := observed(t, at, relock.WithTenure(time.Hour))
		m, owner := s.Mutex("lock"), s.NewContext(kit.Background)

		kit.Lock(t, owner, m)
		require.Equal(t, [4]int{1, 0, 0, 0}, r.counts())
		e := r.acquired[0]
		require.Equal(t, relock.AcquireEvent{Name: "lock", Held: true, Wait: e.Wait}, e)
		require.Positive(t, e.Wait)
		require.Less(t, e.Wait, kit.Soon)

		kit.Lock(t, owner, m) // again
		require.True(t, kit.TryLock(t, owner, s.Mutex("lock")))
		require.False(t, kit.TryLock(t, kit.Background, m))
		kit.Unlock(t, owner, m)
		kit.Unlock(t, owner, m)
		require.Equal(t, [4]int{1, 0, 0, 0}, r.counts(), "none of these is an event")

		next := s.Mutex("lock")
		got := kit.Async(func() error { return next.Lock(kit.Background) })
		kit.Queued(t, s, "lock", 1)
		time.Sleep(10 * time.Millisecond)
		passed := time.Now()
		kit.Unlock(t, owner, m)
		require.NoError(t, kit.Receive(t, got, "the next one to get in"))
		require.Equal(t, [4]int{2, 1, 0, 0}, r.counts())
		e = r.acquired[1]
		require.Equal(t, relock.AcquireEvent{Name: "lock", Held: true, Wait: e.Wait, Contended: true, Handoff: true}, e)
		require.GreaterOrEqual(t, e.Wait, 10*time.Millisecond)
		require.Equal(t, relock.ReleaseEvent{Name: "lock", Held: r.released[0].Held}, r.released[0])
		require.GreaterOrEqual(t, r.released[0].Held, 10*time.Millisecond)

		kit.Unlock(t, kit.Background, next)
		require.ErrorIs(t, next.Unlock(kit.Background), relock.ErrNotHeld)
		require.True(t, kit.TryLock(t, kit.Background, next))
		kit.Unlock(t, kit.Background, next)
		require.Equal(t, [4]int{3, 3, 0, 0}, r.counts())
		require.LessOrEqual(t, r.released[1].Held, time.Since(passed), "from the hand-off on")
	})
}

func TestObserverSeesWhyALockWasNotAcquired(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, r := observed(t, at)
		held := kit.NewSession(t, at).Mutex("lock")
		kit.Lock(t, kit.Background, held)
		ctx, cancel := kit.ContextFor(20 * time.Millisecond)
		defer cancel()
		wantStopped(t, s.Mutex("lock").Lock(ctx), ctx.Err())
		require.Equal(t, [4]int{1, 0, 0, 0}, r.counts())
		e := r.acquired[0]
		require.Equal(t, "lock", e.Name)
		require.ErrorIs(t, e.Err, kit.ErrStop)
		require.True(t, e.Contended)
		require.False(t, e.Handoff)
		require.GreaterOrEqual(t, e.Wait, 20*time.Millisecond)

		client := kit.NewClient(t, at)
		require.NoError(t, client.Do(kit.Background, client.B().Set().Key("text").Value("x").Build()).Error())
		_, err := s.Mutex("text").TryLock(kit.Background)
		require.Error(t, err)
		require.Equal(t, err, r.acquired[1].Err)
	})
}

func TestObserverSeesContentionWithAnotherSession(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, r := observed(t, at)
		held, m := kit.NewSession(t, at).Mutex("lock"), s.Mutex("lock")
		kit.Lock(t, kit.Background, held)
		got := kit.Async(func() error { return m.Lock(kit.Background) })
		kit.Awaited(t, kit.NewClient(t, at), "lock")
		kit.Unlock(t, kit.Background, held)
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
		require.True(t, r.acquired[0].Contended)
		require.False(t, r.acquired[0].Handoff)
		kit.Unlock(t, kit.Background, m)
	})
}

func TestObserverSeesLossesOnce(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, r := observed(t, at)
		m := s.Mutex("lock")
		kit.Lock(t, kit.Background, m)
		forceUnlock(t, s, m)
		redistest.Eventually(t, kit.Soon, "the event", func() bool { return r.counts()[2] > 0 })
		require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
		require.Equal(t, [4]int{1, 0, 1, 0}, r.counts(), "the loss is the end of the hold; its unlock is none")
		require.Equal(t, "lock", r.lost[0].Name)
		require.Error(t, r.lost[0].Cause)

		kit.Lock(t, kit.Background, s.Mutex("a"))
		kit.Lock(t, kit.Background, s.Mutex("b"))
		require.NoError(t, s.Close(kit.Background))
		require.Equal(t, [4]int{3, 0, 3, 0}, r.counts())
		for _, e := range r.lost[1:] {
			require.ErrorIs(t, e.Cause, relock.ErrClosed)
		}
	})
}

func TestObserverSeesLeasesThatRunOut(t *testing.T) {
	t.Parallel()
	s, r := observed(t, redistest.Start(t))
	m := s.Mutex("lock", relock.WithFixedLease(100*time.Millisecond))
	kit.Lock(t, kit.Background, m)
	lostIn(t, kit.Soon, m)
	redistest.Eventually(t, kit.Soon, "the event", func() bool { return r.counts() == [4]int{1, 0, 1, 0} })
	require.Equal(t, "lock", r.lost[0].Name)
	require.Error(t, r.lost[0].Cause)
}

func TestObserverSeesRenewals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, r := observed(t, server, relock.WithLease(600*time.Millisecond))
	const holds = 30
	var held []*relock.Mutex
	for i := range holds {
		m := s.Mutex(fmt.Sprint("lock-", i))
		kit.Lock(t, kit.Background, m)
		held = append(held, m)
	}
	redistest.Eventually(t, kit.Soon, "renewals of all", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		n := 0
		for _, e := range r.renewed {
			n += e.Holds
		}
		return n >= 2*holds
	})
	for _, m := range held {
		kit.Unlock(t, kit.Background, m)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Less(t, len(r.renewed), holds, "in batches")
	for _, e := range r.renewed {
		require.NoError(t, e.Err)
		require.Positive(t, e.Duration)
	}
}

func TestObserverSeesRenewalsThatFail(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, r := observed(t, server, relock.WithLease(600*time.Millisecond))
	kit.Lock(t, kit.Background, s.Mutex("lock"))
	server.Kill()
	redistest.Eventually(t, kit.Soon, "a failed renewal", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range r.renewed {
			if e.Err != nil {
				return e.Holds == 1
			}
		}
		return false
	})
}
