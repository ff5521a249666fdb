package relock_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// everyWrite makes a server lose nothing that it has acknowledged.
var everyWrite = []string{"--appendonly", "yes", "--appendfsync", "always"}

// contend has workers in sessions of their own lock and unlock until stop is closed.
func contend(sessions []*relock.Session, h *holds, stop <-chan struct{}) error {
	return together(len(sessions), func(i int) error {
		m := sessions[i].Mutex("it")
		for !isClosed(stop) {
			if _, err := h.hold(background, m, fmt.Sprint("session ", i), time.Millisecond); err != nil {
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
		{"every write kept", everyWrite, true},
		{"everything lost", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, c.args...)
			var sessions []*relock.Session
			for range 3 {
				sessions = append(sessions, newSession(t, s, relock.WithWatchdog(lease)))
			}
			h := &holds{start: time.Now()}
			stop := make(chan struct{})
			result := async(func() error { return contend(sessions, h, stop) })
			for range restarts {
				before := h.count()
				redistest.Eventually(t, soon, "everybody to go on", func() bool { return h.count() > before+30 })
				s.Kill()
				require.NoError(t, s.Restart())
			}
			before := h.count()
			redistest.Eventually(t, soon, "everybody to go on", func() bool { return h.count() > before+30 })
			close(stop)
			require.NoError(t, receive(t, result, "the workers"))
			overlaps, stale := sweep(h.list)
			require.Empty(t, stale, "tokens that are not larger")
			if c.exact {
				require.Empty(t, overlaps, "two certain holds at once")
			}
			t.Logf("%d holds, %d overlaps", h.count(), len(overlaps))
			freed(t, s, "it", lease+time.Second)
		})
	}
}

func TestHoldSurvivesARestartThatLosesNothing(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	s := redistest.Start(t, everyWrite...)
	m := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
	other := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
	lock(t, background, m)
	done, token := m.Done(), m.FencingToken()
	waiting := async(func() error { return other.Lock(background) })
	for range 2 {
		s.Kill()
		require.NoError(t, s.Restart())
		before, ok := m.Deadline()
		require.True(t, ok)
		redistest.Eventually(t, soon, "a renewal", func() bool {
			d, ok := m.Deadline()
			return !ok || d.After(before.Add(lease/10))
		})
		require.Zero(t, len(waiting))
	}
	require.False(t, isClosed(done))
	unlock(t, background, m)
	require.NoError(t, receive(t, waiting, "the waiter"))
	require.Greater(t, other.FencingToken(), token)
	unlock(t, background, other)
}

func TestHolderIsToldOfLostDataAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	for _, c := range []struct {
		name string
		lose func(t *testing.T, s *redistest.Server)
	}{
		{"restart", func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Restart()) }},
		{"flush", func(t *testing.T, s *redistest.Server) {
			_, err := s.Do("FLUSHALL")
			require.NoError(t, err)
		}},
		{"deletion", func(t *testing.T, s *redistest.Server) {
			_, err := s.Do("DEL", "it")
			require.NoError(t, err)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			m := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
			other := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
			lock(t, background, m)
			token := m.FencingToken()
			c.lose(t, s)
			deadline := watchLoss(t, m)
			require.Greater(t, time.Until(deadline), lease/6, "told long before the deadline")
			lock(t, background, other)
			require.Greater(t, other.FencingToken(), token)
			unlockIsLost(t, m)
			require.NoError(t, other.Err())
			require.NotEmpty(t, holderID(t, s, "it"))
			unlock(t, background, other)
			goesOn(t, m)
		})
	}
}

func TestLockGetsInWhenRedisIsBackHoweverLongItWasGone(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	s := redistest.Start(t)
	session := newSession(t, s, relock.WithWatchdog(lease))
	waiting, asking, bounded := session.Mutex("waiting"), session.Mutex("asking"), session.Mutex("bounded")
	holder := newSession(t, s, relock.WithWatchdog(lease)).Mutex("waiting")
	lock(t, background, holder)
	asleep := async(func() error { return waiting.Lock(background) })
	redistest.Eventually(t, soon, "the waiter to listen", func() bool {
		return subscribers(t, s, "redisson_lock__channel:{waiting}") == 1
	})
	s.Kill()
	awake := async(func() error { return asking.Lock(background) })
	ctx, cancel := context.WithTimeout(background, 4*lease)
	defer cancel()
	err := bounded.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	ok, err := bounded.TryLock(background)
	require.False(t, ok)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Zero(t, len(asleep))
	require.Zero(t, len(awake))
	require.NoError(t, s.Restart())
	require.NoError(t, receive(t, asleep, "the call that waited for the lock"))
	require.NoError(t, receive(t, awake, "the call that came while Redis was down"))
	unlock(t, background, waiting)
	unlock(t, background, asking)
	unlockIsLost(t, holder)
	goesOn(t, bounded, holder)
}

func TestLockRidesOutTheLoadingOfData(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	s := redistest.Start(t, append([]string{"--key-load-delay", "200"}, everyWrite...)...)
	m := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
	other := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
	_, err := s.Do("EVAL", "for i = 1, 4000 do redis.call('set', 'filler' .. i, i) end", "0")
	require.NoError(t, err)
	lock(t, background, m)
	s.Kill()
	restarted := async(s.Restart)
	loading := false
	waiting := async(func() error { return other.Lock(background) })
	for len(restarted) == 0 {
		if _, err := s.Do("PING"); err != nil && strings.HasPrefix(err.Error(), "LOADING") {
			loading = true
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.NoError(t, receive(t, restarted, "the restart"))
	require.True(t, loading, "the server was seen to load")
	require.NoError(t, m.Err())
	require.Zero(t, len(waiting))
	unlock(t, background, m)
	require.NoError(t, receive(t, waiting, "the waiter"))
	unlock(t, background, other)
}

// What is not promised: a Redis that loses its data gives the lock away under its
// holder, who is told at the next renewal and not before. The token tells the two
// holders apart from the first moment.
func TestRestartThatLosesDataMayMakeTwoHolders(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, other := newSession(t, s).Mutex("it"), newSession(t, s).Mutex("it") // lease 30 s
	h := &holds{start: time.Now()}
	lock(t, background, m)
	first := certainHold{who: "first", from: time.Since(h.start), token: m.FencingToken()}
	require.NoError(t, s.Restart())
	_, err := h.hold(background, other, "second", time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, m.Err(), "it is certain of its hold")
	first.to = time.Since(h.start)
	require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
	overlaps, stale := sweep(append(h.list, first))
	require.NotEmpty(t, overlaps)
	require.Empty(t, stale)
}
