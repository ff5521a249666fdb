package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// contend has workers in sessions of their own lock and unlock until stop is closed.
func contend(sessions []*relock.Session, h *holds, stop <-chan struct{}) error {
	return kit.Together(len(sessions), func(i int) error {
		m := sessions[i].Mutex("it")
		for !kit.IsClosed(stop) {
			if _, err := h.hold(kit.Background, m, fmt.Sprint("session ", i), time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestRestartOfRedisStopsNobody(t *testing.T) {
	t.Parallel()
	const lease, restarts = 700 * time.Millisecond, 4
	for _, c := range []struct {
		name  string
		args  []string
		exact bool // nothing is lost, so exclusion is exact
	}{
		{"every write kept", kit.EveryWrite, true},
		{"everything lost", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, c.args...)
			var sessions []*relock.Session
			for range 3 {
				sessions = append(sessions, kit.NewSession(t, s, relock.WithLease(lease)))
			}
			h := &holds{start: time.Now()}
			stop := make(chan struct{})
			result := kit.Async(func() error { return contend(sessions, h, stop) })
			for range restarts {
				before := h.count()
				redistest.Eventually(t, kit.Soon, "everybody to go on", func() bool { return h.count() > before+30 })
				s.Kill()
				require.NoError(t, s.Restart())
			}
			before := h.count()
			redistest.Eventually(t, kit.Soon, "everybody to go on", func() bool { return h.count() > before+30 })
			close(stop)
			require.NoError(t, kit.Receive(t, result, "the workers"))
			overlaps, stale := sweep(h.list)
			require.Empty(t, stale, "tokens that are not larger")
			if c.exact {
				require.Empty(t, overlaps, "two certain holds at once")
			}
			t.Logf("%d holds, %d overlaps", h.count(), len(overlaps))
			freed(t, s, "it")
		})
	}
}

func TestLockRidesOutTheLoadingOfData(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	s := redistest.Start(t, append([]string{"--key-load-delay", "200"}, kit.EveryWrite...)...)
	m := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")
	other := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")
	_, err := s.Do("EVAL", "for i = 1, 4000 do redis.call('set', 'filler' .. i, i) end", "0")
	require.NoError(t, err)
	kit.Lock(t, kit.Background, m)
	s.Kill()
	restarted := kit.Async(s.Restart)
	loading := false
	waiting := kit.Async(func() error { return other.Lock(kit.Background) })
	for len(restarted) == 0 {
		if _, err := s.Do("PING"); err != nil && strings.HasPrefix(err.Error(), "LOADING") {
			loading = true
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.NoError(t, kit.Receive(t, restarted, "the restart"))
	require.True(t, loading, "the server was seen to load")
	require.NoError(t, m.Err())
	require.Zero(t, len(waiting))
	kit.Unlock(t, kit.Background, m)
	require.NoError(t, kit.Receive(t, waiting, "the waiter"))
	kit.Unlock(t, kit.Background, other)
}
