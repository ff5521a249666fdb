package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// beforeItsTime waits until the lock is free, and checks that this is not because its
// lease has run out.
func beforeItsTime(t testing.TB, s *redistest.Server, name string) {
	t.Helper()
	var expiry time.Time
	redistest.Eventually(t, soon, name+" to be free", func() bool {
		reply, err := s.Do("PTTL", name)
		require.NoError(t, err)
		ttl := reply.(int64)
		if ttl < 0 {
			return true
		}
		expiry = time.Now().Add(time.Duration(ttl) * time.Millisecond)
		return false
	})
	require.False(t, expiry.IsZero(), "the key was gone before")
	require.Greater(t, time.Until(expiry), 200*time.Millisecond, "what was left of the lease")
}

// A renewal whose reply is lost makes the key live longer than the session can know
// for certain. When the deadline it knows of has passed, by loss or in Unlock, it
// releases the key as soon as Redis can be reached, for others wait. Unlock did not.
func TestKeyThatOutlivesItsDeadlineIsReleasedOnceRedisIsBack(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	for _, c := range []struct {
		name string
		end  func(t *testing.T, m *relock.Mutex)
	}{
		{"by Unlock", func(t *testing.T, m *relock.Mutex) {
			require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
		}},
		{"by loss", func(t *testing.T, m *relock.Mutex) {
			receive(t, m.Done(), "the loss")
			unlockIsLost(t, m)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, p := proxied(t)
			session := newSession(t, p, relock.WithWatchdog(lease))
			m, other := session.Mutex("it"), session.Mutex("other")
			lock(t, background, other) // for the first renewal, which makes the script known
			time.Sleep(lease / 5)
			lock(t, background, m)
			redistest.Eventually(t, soon, "a renewal", func() bool {
				return s.CommandStats()["pexpireat"] > 0
			})
			unlock(t, background, other)
			receive(t, dropReply(p, "renew"), "the reply to be lost")
			p.Refuse(true)
			p.Cut()
			c.end(t, m)
			p.Refuse(false)
			beforeItsTime(t, s, "it")
			goesOn(t, m)
		})
	}
}

func TestCloseEndsCallsThatWaitForRedis(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		call func(*relock.Session) error
	}{
		{"Lock", func(s *relock.Session) error { return s.Mutex("it").Lock(background) }},
		{"TryLock", func(s *relock.Session) error { _, err := s.Mutex("it").TryLock(background); return err }},
		{"Inspect", func(s *relock.Session) error { _, err := s.Inspect(background, "it"); return err }},
		{"ForceUnlock", func(s *relock.Session) error { _, err := s.ForceUnlock(background, "it"); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			session := newSession(t, s, relock.WithWatchdog(time.Second))
			goesOn(t, session.Mutex("it"))
			require.NoError(t, s.Freeze())
			result := async(func() error { return c.call(session) })
			time.Sleep(50 * time.Millisecond)
			ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
			defer cancel()
			watch := startWatch()
			require.ErrorIs(t, session.Close(ctx), context.DeadlineExceeded)
			require.ErrorIs(t, receive(t, result, "the call"), relock.ErrClosed)
			require.Less(t, watch.took(), slack)
			require.NoError(t, s.Thaw())
			freed(t, s, "it", quickly)
		})
	}
}

func TestCloseWhileRedisIsOutOfReachReturnsWithItsContext(t *testing.T) {
	const lease = time.Second
	eachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		session := newSession(t, p, relock.WithWatchdog(lease))
		held, asked := session.Mutex("held"), session.Mutex("asked")
		lock(t, background, held)
		done := held.Done()
		begin()
		waiting := async(func() error { return asked.Lock(background) })
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		watch := startWatch()
		require.ErrorIs(t, session.Close(ctx), context.DeadlineExceeded)
		require.Less(t, watch.took(), 100*time.Millisecond+slack)
		receive(t, done, "the hold to be lost")
		require.ErrorIs(t, held.Err(), relock.ErrLost)
		require.ErrorIs(t, receive(t, waiting, "the waiting call"), relock.ErrClosed)
		unlockIsLost(t, held)
		heal()
		_ = finish(t, session) // an error if that took longer than the lease
		freed(t, s, "held", lease+time.Second)
		freed(t, s, "asked", lease+time.Second)
		redistest.Eventually(t, soon, "the subscription to end", func() bool { return s.PubSubClients() == 0 })
	})
}

// A release that fails because its connection has just been lost is tried again, by
// Close as by Unlock. It was not, and the lock stayed taken for a lease.
func TestCloseReleasesOverALostConnection(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	for i := range 5 {
		session := newSession(t, p) // lease 30 s
		goesOn(t, session.Mutex("it"))
		lock(t, background, session.Mutex("it"))
		if i%2 == 0 {
			p.Cut()
		} else {
			dropReply(p, "release")
		}
		require.NoError(t, finish(t, session))
		freed(t, s, "it", quickly)
	}
}

// finish waits until a session has closed, and returns what it could not do.
func finish(t testing.TB, session *relock.Session) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, soon)
	defer cancel()
	err := session.Close(ctx)
	require.NoError(t, ctx.Err(), "Close after Redis is back")
	return err
}

func TestNewSessionReturnsWithItsContextWhileRedisIsOutOfReach(t *testing.T) {
	eachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		client := newClient(t, p)
		goesOn(t, sessionOn(t, client).Mutex("it"))
		begin()
		ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
		defer cancel()
		watch := startWatch()
		early, err := relock.NewSession(ctx, client)
		require.Less(t, watch.took(), 200*time.Millisecond+slack)
		heal()
		if err == nil { // nothing needs to be written for it
			require.NoError(t, finish(t, early))
		}
		redistest.Eventually(t, soon, "a session", func() bool {
			ctx, cancel := context.WithTimeout(background, soon)
			defer cancel()
			session, err := relock.NewSession(ctx, client)
			if err != nil {
				return false
			}
			goesOn(t, session.Mutex("it"))
			return finish(t, session) == nil
		})
	})
}
