package relock_test

import (
	"context"
	"errors"
	"fmt"
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

const aRace = 300 * time.Millisecond // there are many

// A waiter leaves at about the time at which the lock comes to it: from a goroutine of
// the same session, directly or by way of Redis, from another session, or because it is
// free. Another one stays, and gets in without waiting for any timer.
func TestCancelRacesWithAGrant(t *testing.T) {
	grants := map[string]struct {
		tenure              time.Duration
		elsewhere, wasThere bool // the holder is in another session; and there was one
	}{
		"hand-off":      {time.Hour, false, true},
		"release":       {0, false, true},
		"other session": {10 * time.Millisecond, true, true},
		"free":          {10 * time.Millisecond, false, false},
	}
	eachKind(t, func(t *testing.T, k *lockKind) {
		for from, grant := range grants {
			if from == "release" && k.name == "FairMutex" {
				continue // it is never handed on
			}
			t.Run(from, func(t *testing.T) {
				onBoth(t, func(t *testing.T, at addressed) {
					s, client := newSession(t, at, relock.WithTenure(grant.tenure)), newClient(t, at)
					held, m, stays := k.holder(s), k.of(s), k.of(s)
					if grant.elsewhere {
						held = k.holder(newSession(t, at))
					}
					r := newRace()
					for end := time.Now().Add(stress(t, aRace)); r.goesOn(end); {
						if grant.wasThere {
							lock(t, background, held)
						}
						ctx, cancel := r.context(background)
						leaves := async(func() error { return m.Lock(ctx) })
						got := async(func() error { return stays.Lock(background) })
						time.Sleep(rand.N(200 * time.Microsecond))
						if grant.wasThere {
							unlock(t, background, held)
						}
						require.NoError(t, r.settle(m, background, receive(t, leaves, "the waiter to get in or to leave")))
						start := time.Now()
						require.NoError(t, receive(t, got, "the waiter that stays to get in"))
						require.Less(t, time.Since(start), 4*time.Second, "a claim is 5 s")
						require.NoError(t, stays.Err())
						unlock(t, background, stays)
						cancel()
					}
					nothingLeft(t, client)
					lock(t, background, held)
					r.check(t)
				})
			})
		}
	})
}

// A caller that leaves while its owner is let in together with others gives back its
// own lock, and not theirs.
func TestCancelOfOneOfAnOwnersWaiters(t *testing.T) {
	eachKind(t, func(t *testing.T, k *lockKind) {
		onBoth(t, func(t *testing.T, at addressed) {
			s, client := newSession(t, at), newClient(t, at)
			holder, m := k.holder(s), k.of(s)
			r := newRace()
			for end := time.Now().Add(stress(t, aRace)); r.goesOn(end); {
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
			nothingLeft(t, client)
			r.check(t)
		})
	})
}

// Everybody at once: several sessions with several goroutines, with and without
// owners, who lose patience at random. Nobody's turn may get lost, and in the end
// nothing may be left. (Readers and writers together: TestRWMutexStorm.)
func TestCancelStorm(t *testing.T) {
	eachExclusive(t, func(t *testing.T, k *lockKind) {
		server := redistest.Start(t)
		client := newClient(t, server)
		var sessions []*relock.Session
		for i := range 3 {
			sessions = append(sessions, newSession(t, server, relock.WithTenure(time.Duration(i)*5*time.Millisecond)))
		}
		const goroutines = 6
		end := time.Now().Add(stress(t, 2*aRace))
		races := make([]*race, len(sessions)*goroutines)
		require.NoError(t, together(len(races), func(i int) error {
			m, parent := k.of(sessions[i/goroutines]), background
			if i%goroutines == 0 {
				parent = sessions[0].NewContext(parent)
			}
			races[i] = newRace()
			for races[i].goesOn(end) {
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
					return fmt.Errorf("goroutine %d: %w", i, err)
				}
			}
			return nil
		}))
		nothingLeft(t, client)
		total := 0
		for _, r := range races {
			require.NotZero(t, r.got, "nobody is left behind")
			total += r.got
		}
		require.Equal(t, total, counted(t, client, "count"))
		for _, s := range sessions {
			m := k.of(s)
			lock(t, background, m)
			unlock(t, background, m)
		}
	})
}
