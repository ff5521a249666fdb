package relock_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The waiter leaves at about the time at which the lock comes to it: from the same
// session, from another one, or because it is free.
func TestFairMutexCancelRacesWithAGrant(t *testing.T) {
	for _, from := range []string{"same session", "other session", "free"} {
		t.Run(from, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at addressed) {
				s, client := newSession(t, at), newClient(t, at)
				holder, m, stays := s, s.FairMutex("lock"), s.FairMutex("lock")
				if from == "other session" {
					holder = newSession(t, at)
				}
				held := holder.FairMutex("lock")
				r := newRace()
				for end := time.Now().Add(stress(t, time.Second)); r.goesOn(end); {
					if from != "free" {
						lock(t, background, held)
					}
					ctx, cancel := r.context(background)
					leaves := async(func() error { return m.Lock(ctx) })
					got := async(func() error { return stays.Lock(background) })
					time.Sleep(rand.N(200 * time.Microsecond))
					if from != "free" {
						unlock(t, background, held)
					}
					require.NoError(t, r.settle(m, background, receive(t, leaves, "the waiter to get in or to leave")))
					start := time.Now()
					require.NoError(t, receive(t, got, "the waiter that stays to get in"))
					require.Less(t, time.Since(start), 4*time.Second, "the claim is 5 s")
					unlock(t, background, stays)
					cancel()
				}
				nothingOf(t, client, "lock")
				r.check(t)
			})
		})
	}
}

// A caller that leaves while its owner is let in together with others gives back its
// own lock, and not theirs.
func TestFairMutexCancelOfOneOfAnOwnersWaiters(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at), newClient(t, at)
		held, m := s.FairMutex("lock"), s.FairMutex("lock")
		r := newRace()
		for end := time.Now().Add(stress(t, time.Second)); r.goesOn(end); {
			owner := s.NewContext(background)
			lock(t, background, held)
			ctx, cancel := r.context(owner)
			leaves := async(func() error { return m.Lock(ctx) })
			stays := async(func() error { return m.Lock(owner) })
			time.Sleep(rand.N(200 * time.Microsecond))
			unlock(t, background, held)
			require.NoError(t, receive(t, stays, "the owner to get in"))
			err := receive(t, leaves, "the other waiter to get in or to leave")
			require.NoError(t, m.Err())
			require.NoError(t, r.settle(m, owner, err))
			require.NoError(t, m.Err(), "one lock of the owner is left")
			unlock(t, owner, m)
			require.ErrorIs(t, m.Unlock(owner), relock.ErrNotHeld)
			cancel()
		}
		nothingOf(t, client, "lock")
		r.check(t)
	})
}

// Everybody at once: several sessions with several goroutines, with and without owners,
// who lose patience at random. Nobody's turn may get lost, and in the end nothing may
// be left.
func TestFairMutexCancelStorm(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	var sessions []*relock.Session
	for range 3 {
		sessions = append(sessions, newSession(t, server))
	}
	const goroutines = 6
	end := time.Now().Add(stress(t, time.Second))
	races := make([]*race, len(sessions)*goroutines)
	require.NoError(t, together(len(races), func(i int) error {
		m, parent := sessions[i/goroutines].FairMutex("lock"), background
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
				return err
			}
		}
		return nil
	}))
	nothingOf(t, client, "lock")
	total := 0
	for _, r := range races {
		require.NotZero(t, r.got, "nobody is left behind")
		total += r.got
	}
	require.Equal(t, total, counted(t, client, "count"))
	for _, s := range sessions {
		m := s.FairMutex("lock")
		lock(t, background, m)
		unlock(t, background, m)
	}
}
