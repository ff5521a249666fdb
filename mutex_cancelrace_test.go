package relock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A race is a call of Lock whose context ends after a random time. That time is
// moved to where the call gets the lock as often as not.
type race struct {
	span         time.Duration // the mean time after which the context ends
	got, stopped int
}

func newRace() *race { return &race{span: time.Millisecond} }

// context returns one that ends by a deadline or by its owner.
func (r *race) context(parent context.Context) (context.Context, context.CancelFunc) {
	after := rand.N(2 * r.span)
	if rand.N(2) == 0 {
		return context.WithTimeoutCause(parent, after, errStop)
	}
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(after, func() { cancel(errStop) })
	return ctx, func() { timer.Stop(); cancel(nil) }
}

// settle ends a call that returned err: it unlocks what the call got.
func (r *race) settle(m relock.Locker, ctx context.Context, err error) error {
	switch {
	case err == nil:
		r.got++
		r.span = max(r.span*9/10, 10*time.Microsecond)
		return m.Unlock(ctx)
	case errors.Is(err, errStop):
		r.stopped++
		r.span = min(r.span*11/10, 50*time.Millisecond)
		return nil
	}
	return err
}

// goesOn reports whether to go on: until then, and on a slow machine until there was
// either outcome.
func (r *race) goesOn(end time.Time) bool {
	left := time.Until(end)
	return left > 0 || left > -soon && (r.got == 0 || r.stopped == 0)
}

// check sees to it that the race was one.
func (r *race) check(t *testing.T) {
	t.Helper()
	t.Logf("got %d, stopped %d, within %v", r.got, r.stopped, r.span)
	require.NotZero(t, r.got)
	require.NotZero(t, r.stopped)
}

// The grant comes from a goroutine of the same process, directly or by way of Redis,
// at about the time at which the waiter leaves.
func TestCancelRacesWithAGrantInTheProcess(t *testing.T) {
	for what, tenure := range map[string]time.Duration{"hand-off": time.Hour, "release": 0} {
		t.Run(what, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at addressed) {
				s, client := newSession(t, at, relock.WithTenure(tenure)), newClient(t, at)
				a, b, c := s.Mutex("lock"), s.Mutex("lock"), s.Mutex("lock")
				r := newRace()
				for end := time.Now().Add(stress(t, time.Second)); r.goesOn(end); {
					lock(t, background, a)
					ctx, cancel := r.context(background)
					leaves := async(func() error { return b.Lock(ctx) })
					stays := async(func() error { return c.Lock(background) })
					time.Sleep(rand.N(200 * time.Microsecond))
					unlock(t, background, a)
					err := receive(t, leaves, "the waiter to get in or to leave")
					require.NoError(t, r.settle(b, background, err))
					require.NoError(t, receive(t, stays, "the waiter that stays to get in"))
					require.NoError(t, c.Err())
					unlock(t, background, c)
					cancel()
				}
				goneQuickly(t, client, "lock")
				r.check(t)
			})
		})
	}
}

// The grant comes from Redis: the lock is free, or becomes free by another session's
// unlock.
func TestCancelRacesWithAGrantOfRedis(t *testing.T) {
	for what, contended := range map[string]bool{"free": false, "contended": true} {
		t.Run(what, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at addressed) {
				s, other, client := newSession(t, at), newSession(t, at), newClient(t, at)
				m, before := s.Mutex("lock"), other.Mutex("lock")
				r := newRace()
				for end := time.Now().Add(stress(t, time.Second)); r.goesOn(end); {
					if contended {
						lock(t, background, before)
					}
					ctx, cancel := r.context(background)
					leaves := async(func() error { return m.Lock(ctx) })
					if contended {
						time.Sleep(rand.N(200 * time.Microsecond))
						unlock(t, background, before)
					}
					err := receive(t, leaves, "the waiter to get in or to leave")
					require.NoError(t, r.settle(m, background, err))
					cancel()
				}
				goneQuickly(t, client, "lock")
				lock(t, background, m)
				r.check(t)
			})
		})
	}
}

// Everybody at once: several sessions with several goroutines, with and without
// owners, who lose patience at random. Nobody's turn may get lost, and in the end
// nothing may be left.
func TestCancelStorm(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	var sessions []*relock.Session
	for i := range 3 {
		sessions = append(sessions, newSession(t, server, relock.WithTenure(time.Duration(i)*5*time.Millisecond)))
	}
	const goroutines = 6
	end := time.Now().Add(stress(t, time.Second))
	races := make([]*race, len(sessions)*goroutines)
	require.NoError(t, together(len(races), func(i int) error {
		m, parent := sessions[i/goroutines].Mutex("lock"), background
		if i%goroutines == 0 {
			parent = sessions[0].NewContext(parent)
		}
		races[i] = newRace()
		for time.Now().Before(end) {
			ctx, cancel := races[i].context(parent)
			err := m.Lock(ctx)
			if err == nil {
				if err := bump(background, client, "count"); err != nil {
					return err
				}
			}
			err = races[i].settle(m, parent, err)
			cancel()
			if err != nil {
				return err
			}
		}
		return nil
	}))
	goneQuickly(t, client, "lock")
	for _, s := range sessions {
		m := s.Mutex("lock")
		lock(t, background, m)
		unlock(t, background, m)
	}
	total := 0
	for _, r := range races {
		require.NotZero(t, r.got, "nobody is left behind")
		total += r.got
	}
	require.Equal(t, total, counted(t, client, "count"))
}

// A caller that leaves while its owner is let in together with others gives back its
// own lock, and not theirs.
func TestCancelOfOneOfAnOwnersWaiters(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at), newClient(t, at)
		holder, m := s.Mutex("lock"), s.Mutex("lock")
		r := newRace()
		for end := time.Now().Add(stress(t, 500*time.Millisecond)); r.goesOn(end); {
			owner := s.NewContext(background)
			lock(t, background, holder)
			ctx, cancel := r.context(owner)
			leaves := async(func() error { return m.Lock(ctx) })
			stays := async(func() error { return m.Lock(owner) })
			time.Sleep(rand.N(200 * time.Microsecond))
			unlock(t, background, holder)
			require.NoError(t, receive(t, stays, "the owner to get in"))
			err := receive(t, leaves, "the other waiter to get in or to leave")
			require.NoError(t, m.Err())
			require.NoError(t, r.settle(m, owner, err))
			require.NoError(t, m.Err(), "one lock of the owner is left")
			unlock(t, owner, m)
			require.ErrorIs(t, m.Unlock(owner), relock.ErrNotHeld)
			cancel()
		}
		goneQuickly(t, client, "lock")
		r.check(t)
	})
}
