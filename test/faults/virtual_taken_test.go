package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// waits calls Lock of a lock, which must end with its context after d, and returns its error.
func waits(t *testing.T, l relock.Locker, d time.Duration) error {
	t.Helper()
	ctx, cancel := kit.ContextFor(d)
	defer cancel()
	err := l.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, kit.ErrStop, "the cause")
	require.NotContains(t, err.Error(), "\n")
	require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
	return err
}

// isTaken checks the error of a Lock that somebody else kept waiting for 1.5 s.
func isTaken(t *testing.T, err error, verb string) {
	t.Helper()
	require.ErrorIs(t, err, relock.ErrTaken)
	require.Regexp(t, fmt.Sprintf(`^relock: %s "lock": taken by another holder for 1\.[5-9]s: context deadline exceeded; %v$`, verb, kit.ErrStop), err.Error())
}

// isSilent checks the error of a Lock whose Redis did not answer.
func isSilent(t *testing.T, err error) {
	t.Helper()
	require.NotErrorIs(t, err, relock.ErrTaken)
	require.Regexp(t, `; (no answer from Redis for \S+|i/o timeout)$`, err.Error()) // of the request, or of its connection
}

// A lock that was taken and a Redis that hangs both read "context deadline exceeded".
func TestLockSaysThatItWasTaken(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		verb := "lock"
		if strings.HasPrefix(k.Name, "reader") {
			verb = "rlock"
		}
		inBubble(t, func(t *testing.T) {
			n := newNetwork(t)
			here, there := n.session(), n.session()
			holder := k.Holder(there)
			require.NoError(t, holder.Lock(kit.Background))
			isTaken(t, waits(t, k.Of(here), 1500*time.Millisecond), verb)

			first := make(chan error)
			go func() { first <- waits(t, k.Of(here), 3*time.Second) }()
			synctest.Wait()
			isTaken(t, waits(t, k.Of(here), 1500*time.Millisecond), verb) // behind the one that asks
			require.ErrorIs(t, <-first, relock.ErrTaken)

			require.NoError(t, holder.Unlock(kit.Background))
			require.NoError(t, k.Holder(here).Lock(kit.Background))
			isTaken(t, waits(t, k.Of(here), 1500*time.Millisecond), verb) // without asking Redis
			n.hang()
			isTaken(t, waits(t, k.Of(here), 1500*time.Millisecond), verb)
		})
	})
}

func TestLockSaysThatRedisDoesNotAnswer(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		inBubble(t, func(t *testing.T) {
			n := newNetwork(t)
			here, there := n.session(), n.session()
			l := k.Of(there)
			n.hang()
			isSilent(t, waits(t, k.Of(here), 500*time.Millisecond)) // from the start
			n.resume()

			require.NoError(t, k.Holder(there).Lock(kit.Background))
			first := make(chan error)
			go func() { first <- waits(t, k.Of(here), 20*time.Second) }()
			time.Sleep(5 * time.Second)
			n.hang()
			err := waits(t, k.Of(here), 14500*time.Millisecond)
			if k.Name == "FairMutex" { // asks for itself
				isSilent(t, err)
			} else {
				require.NotErrorIs(t, err, relock.ErrTaken)
			}
			isSilent(t, <-first) // although it was taken before
			n.resume()
			time.Sleep(10 * time.Second)
			require.ErrorIs(t, waits(t, l, time.Second), relock.ErrTaken)
		})
	})
}

// The process has unlocked, and Redis does not confirm: nobody has the lock.
func TestLockBehindAReleaseWithoutAnAnswerIsNotTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n := newNetwork(t)
		s := n.session()
		m := s.Mutex("lock")
		require.NoError(t, m.Lock(kit.Background))
		n.hang()
		require.NoError(t, m.Unlock(kit.Background))
		require.NotErrorIs(t, waits(t, s.Mutex("lock"), time.Second), relock.ErrTaken)
	})
}

func TestLockOfSeveralSaysThatOneWasTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var here, there []*relock.Session
		for range 3 {
			n := newNetwork(t)
			here, there = append(here, n.session()), append(there, n.session())
		}
		require.NoError(t, there[0].Mutex("lock").Lock(kit.Background))
		a, z := here[0].Mutex("a"), here[0].FairMutex("z")
		for _, g := range []*relock.Group{
			relock.NewGroup(a, here[0].Mutex("lock")), relock.NewGroup(a, here[0].Mutex("lock"), z),
			relock.NewGroup(here[0].Mutex("lock"), here[1].Mutex("lock")),
		} {
			isTaken(t, waits(t, g, 1500*time.Millisecond), "lock")
		}
	})
}

func TestRedlockSaysThatItWasTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var here, there []*relock.Session
		for range 3 {
			n := newNetwork(t)
			here, there = append(here, n.session()), append(there, n.session())
		}
		r := relock.NewRedlock(there, "lock")
		require.NoError(t, r.Lock(kit.Background))
		isTaken(t, waits(t, relock.NewRedlock(here, "lock"), 1500*time.Millisecond), "lock")
		first := make(chan error)
		go func() { first <- waits(t, relock.NewRedlock(here, "lock"), 3*time.Second) }()
		time.Sleep(time.Second)
		isTaken(t, waits(t, relock.NewRedlock(here, "lock"), 1500*time.Millisecond), "lock")
		require.ErrorIs(t, <-first, relock.ErrTaken)
		require.NoError(t, r.Unlock(kit.Background))
	})
}
