package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// An outage keeps Redis from doing what one client, or all of them, ask.
type outage struct {
	name  string
	begin func(*redistest.Server, *redistest.Proxy)
	heal  func(*redistest.Server, *redistest.Proxy)
}

var outages = []outage{
	{
		name:  "frozen",
		begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Freeze() },
		heal:  func(s *redistest.Server, _ *redistest.Proxy) { s.Thaw() },
	}, {
		name:  "killed",
		begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
		heal:  func(s *redistest.Server, _ *redistest.Proxy) { s.Restart() },
	}, {
		name:  "read-only",
		begin: func(s *redistest.Server, _ *redistest.Proxy) { command(s, "REPLICAOF", "127.0.0.1", "1") },
		heal:  func(s *redistest.Server, _ *redistest.Proxy) { command(s, "REPLICAOF", "NO", "ONE") },
	}, {
		name:  "blackhole",
		begin: func(_ *redistest.Server, p *redistest.Proxy) { p.Blackhole(true) },
		heal:  func(_ *redistest.Server, p *redistest.Proxy) { p.Blackhole(false) },
	}, {
		name:  "stalled",
		begin: func(_ *redistest.Server, p *redistest.Proxy) { p.Stall(true) },
		heal:  func(_ *redistest.Server, p *redistest.Proxy) { p.Stall(false) },
	}, {
		name:  "refused",
		begin: func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(true); p.Cut() },
		heal:  func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(false) },
	}, {
		name: "cut into silence",
		begin: func(_ *redistest.Server, p *redistest.Proxy) {
			before := p.Accepted()
			p.Stall(true)
			p.Cut()
			for p.Accepted() == before { // until the session has noticed, and dials in vain
				time.Sleep(time.Millisecond)
			}
		},
		heal: func(_ *redistest.Server, p *redistest.Proxy) { p.Stall(false) },
	},
}

func command(s *redistest.Server, args ...string) {
	if _, err := s.Do(args...); err != nil {
		panic(err)
	}
}

// eachOutage runs f in a subtest for each outage, with a server that loses no data and
// a proxy.
func eachOutage(t *testing.T, f func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func())) {
	t.Helper()
	t.Parallel()
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			s, p := proxied(t, everyWrite...)
			f(t, s, p, func() { o.begin(s, p) }, func() { o.heal(s, p) })
		})
	}
}

func TestLossIsToldByTheDeadlineWhateverHappensToRedis(t *testing.T) {
	const lease = time.Second
	eachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		a := newSession(t, p, relock.WithWatchdog(lease)).Mutex("it")
		b := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")

		entered := make(chan struct{})
		var cause error
		result := async(func() error {
			return relock.Do(background, a, func(ctx context.Context) error {
				close(entered)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil
			})
		})
		receive(t, entered, "the lock")
		token := a.FencingToken()
		begin()
		began, watch := time.Now(), startWatch()
		deadline := watchLoss(t, a)
		require.LessOrEqual(t, deadline.Sub(began), lease)
		err := receive(t, result, "Do to end while Redis is out of reach")
		require.Less(t, time.Since(deadline)-watch.held(), 2*slack, "Do's return after the deadline")
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorIs(t, cause, relock.ErrLost)
		require.ErrorIs(t, a.Err(), relock.ErrLost)
		heal()

		lock(t, background, b)
		held := holderID(t, s, "it")
		require.Greater(t, b.FencingToken(), token)
		require.ErrorIs(t, a.Unlock(background), relock.ErrNotHeld)
		require.False(t, tryLockThrough(t, a)) // the connection works, and what was under way has arrived
		require.Equal(t, held, holderID(t, s, "it"))
		require.NoError(t, b.Err())
		unlock(t, background, b)
		goesOn(t, a, b)
	})
}

// tryLockThrough tries to lock until Redis has answered.
func tryLockThrough(t testing.TB, m *relock.Mutex) (ok bool) {
	t.Helper()
	redistest.Eventually(t, soon, "an answer of Redis", func() bool {
		var err error
		ok, err = m.TryLock(background)
		return err == nil
	})
	return ok
}

func TestLateUnlockOfALostHoldDoesNotDisturbTheNextHolder(t *testing.T) {
	const lease = 700 * time.Millisecond
	eachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		a := newSession(t, p, relock.WithWatchdog(lease)).Mutex("it")
		b := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
		lock(t, background, a)
		begin()
		watchLoss(t, a)
		heal()
		lock(t, background, b)
		held := holderID(t, s, "it")
		unlockIsLost(t, a)
		require.False(t, tryLockThrough(t, a))
		require.Equal(t, held, holderID(t, s, "it"))
		require.NoError(t, b.Err())
		unlock(t, background, b)
		goesOn(t, a, b)
	})
}

func TestUnlockReturnsByTheDeadlineWhileRedisIsOutOfReach(t *testing.T) {
	const lease = 1500 * time.Millisecond
	eachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		a := newSession(t, p, relock.WithWatchdog(lease)).Mutex("it")
		b := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
		lock(t, background, a)
		begin()
		deadline, ok := a.Deadline()
		require.True(t, ok)
		watch := startWatch()
		err := receive(t, async(func() error { return a.Unlock(background) }), "Unlock")
		require.Less(t, time.Since(deadline)-watch.held(), slack, "Unlock's return after the deadline")
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorIs(t, a.Err(), relock.ErrNotHeld)
		heal()
		freed(t, s, "it", lease+time.Second)
		goesOn(t, b, a)
	})
}

func TestLockReturnsWithItsContextWhileRedisIsOutOfReach(t *testing.T) {
	eachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		m := newSession(t, p).Mutex("it")
		goesOn(t, m)
		begin()
		ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
		defer cancel()
		watch := startWatch()
		err := m.Lock(ctx)
		require.Less(t, watch.took(), 300*time.Millisecond+slack)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ok, err := m.TryLock(ctx)
		require.False(t, ok)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		heal()
		goesOn(t, m)
	})
}

func TestOutageShorterThanTheLeaseLosesNothing(t *testing.T) {
	const lease = 3 * time.Second
	eachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		m := newSession(t, p, relock.WithWatchdog(lease)).Mutex("it")
		lock(t, background, m)
		done, token := m.Done(), m.FencingToken()
		for range 2 {
			begin()
			time.Sleep(lease / 3)
			heal()
			before, _ := m.Deadline()
			redistest.Eventually(t, soon, "a renewal", func() bool {
				d, ok := m.Deadline()
				return !ok || d.After(before.Add(lease/10))
			})
		}
		require.False(t, isClosed(done))
		require.NoError(t, m.Err())
		require.Equal(t, token, m.FencingToken())
		unlock(t, background, m)
		freed(t, s, "it", quickly)
	})
}
