package relock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// pauses make a server answer late, all of it or its writes.
var pauses = []struct {
	name  string
	begin func(s *redistest.Server, d time.Duration) error // may block for d
}{
	{"CLIENT PAUSE ALL", func(s *redistest.Server, d time.Duration) error {
		_, err := s.Do("CLIENT", "PAUSE", fmt.Sprint(d.Milliseconds()), "ALL")
		return err
	}},
	{"CLIENT PAUSE WRITE", func(s *redistest.Server, d time.Duration) error {
		_, err := s.Do("CLIENT", "PAUSE", fmt.Sprint(d.Milliseconds()), "WRITE")
		return err
	}},
	{"DEBUG SLEEP", func(s *redistest.Server, d time.Duration) error {
		_, err := s.Do("DEBUG", "SLEEP", fmt.Sprint(d.Seconds()))
		return err
	}},
}

func TestPausesOfRedisAreOutages(t *testing.T) {
	t.Parallel()
	const lease = 1200 * time.Millisecond
	for _, p := range pauses {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			m := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
			other := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")

			// Shorter than the lease: nothing is lost.
			lock(t, background, m)
			done := m.Done()
			require.NoError(t, p.begin(s, lease/3))
			before, _ := m.Deadline()
			redistest.Eventually(t, soon, "a renewal", func() bool {
				d, ok := m.Deadline()
				return !ok || d.After(before)
			})
			require.False(t, isClosed(done))

			// Longer: the holder is told while it lasts, and the next one gets in after.
			token := m.FencingToken()
			waiting := async(func() error { return other.Lock(background) })
			paused := async(func() error { return p.begin(s, 2*lease) })
			began, watch := time.Now(), startWatch()
			deadline := watchLoss(t, m)
			require.Less(t, deadline.Sub(began)-watch.held(), lease+slack)
			require.Zero(t, len(waiting))
			unlockIsLost(t, m)
			require.NoError(t, receive(t, paused, "the pause"))
			require.NoError(t, receive(t, waiting, "the waiter"))
			require.Greater(t, other.FencingToken(), token)
			unlock(t, background, other)
			goesOn(t, m)
		})
	}
}
