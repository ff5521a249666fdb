package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
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
			m := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")
			other := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")

			kit.Lock(t, kit.Background, m)
			// The holder is told while it lasts, and the next one gets in after.
			token := m.FencingToken()
			waiting := kit.Async(func() error { return other.Lock(kit.Background) })
			paused := kit.Async(func() error { return p.begin(s, 2*lease) })
			kit.WatchLoss(t, m)
			require.Zero(t, len(waiting))
			unlockIsLost(t, m)
			require.NoError(t, kit.Receive(t, paused, "the pause"))
			require.NoError(t, kit.Receive(t, waiting, "the waiter"))
			require.Greater(t, other.FencingToken(), token)
			kit.Unlock(t, kit.Background, other)
			goesOn(t, m)
		})
	}
}
