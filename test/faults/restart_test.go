package faults_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
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

func TestLockGetsInWhenRedisIsBackHoweverLongItWasGone(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	s := redistest.Start(t)
	session := kit.NewSession(t, s, relock.WithLease(lease))
	waiting, asking, bounded := session.Mutex("waiting"), session.Mutex("asking"), session.Mutex("bounded")
	holder := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("waiting")
	kit.Lock(t, kit.Background, holder)
	asleep := kit.Async(func() error { return waiting.Lock(kit.Background) })
	redistest.Eventually(t, kit.Soon, "the waiter to queue", func() bool { return contenders(t, s, "waiting") == 1 })
	s.Kill()
	awake := kit.Async(func() error { return asking.Lock(kit.Background) })
	ctx, cancel := context.WithTimeout(kit.Background, 4*lease)
	defer cancel()
	err := bounded.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	ok, err := bounded.TryLock(kit.Background)
	require.False(t, ok)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Zero(t, len(asleep))
	require.Zero(t, len(awake))
	require.NoError(t, s.Restart())
	require.NoError(t, kit.Receive(t, asleep, "the call that waited for the lock"))
	require.NoError(t, kit.Receive(t, awake, "the call that came while Redis was down"))
	kit.Unlock(t, kit.Background, waiting)
	kit.Unlock(t, kit.Background, asking)
	unlockIsLost(t, holder)
	goesOn(t, bounded, holder)
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

// What is not promised: a Redis that loses its data gives the lock away under its
// holder, who is told at the next renewal and not before. The token tells the two
// holders apart from the first moment.
func TestRestartThatLosesDataMayMakeTwoHolders(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, other := kit.NewSession(t, s).Mutex("it"), kit.NewSession(t, s).Mutex("it") // lease 30 s
	h := &holds{start: time.Now()}
	kit.Lock(t, kit.Background, m)
	first := certainHold{who: "first", from: time.Since(h.start), token: m.FencingToken()}
	require.NoError(t, s.Restart())
	_, err := h.hold(kit.Background, other, "second", time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, m.Err(), "it is certain of its hold")
	first.to = time.Since(h.start)
	require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
	overlaps, stale := sweep(append(h.list, first))
	require.NotEmpty(t, overlaps)
	require.Empty(t, stale)
}
