package relock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A server that forgets its scripts, all the time, is noticed by nobody: not by a
// renewal with little time, nor by calls of any kind.
func TestForgottenScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	s := redistest.Start(t)
	keeper := newSession(t, s, relock.WithWatchdog(lease))
	user := newSession(t, s, relock.WithWatchdog(lease), relock.WithTenure(0))
	held := keeper.Mutex("held")
	lock(t, background, held)
	done := held.Done()

	stop := make(chan struct{})
	flushes := async(func() (n int) {
		for ; !isClosed(stop); n++ {
			if _, err := s.Do("SCRIPT", "FLUSH"); err != nil {
				t.Error(err)
				return n
			}
		}
		return n
	})
	var rounds atomic.Int64
	end := time.Now().Add(stress(t, 3*time.Second))
	err := together(3, func(i int) error {
		name := fmt.Sprint("used ", i)
		m := user.Mutex(name)
		for ; time.Now().Before(end); rounds.Add(1) {
			if err := m.Lock(background); err != nil {
				return err
			}
			if state, err := user.Inspect(background, name); err != nil || state.Mode != relock.Exclusive {
				return fmt.Errorf("inspected %v, %w", state, err)
			}
			if err := m.Unlock(background); err != nil {
				return err
			}
			if ok, err := m.TryLock(background); !ok || err != nil {
				return fmt.Errorf("TryLock %v, %w", ok, err)
			}
			if was, err := keeper.ForceUnlock(background, name); !was || err != nil {
				return fmt.Errorf("ForceUnlock %v, %w", was, err)
			}
			if err := m.Unlock(background); !errors.Is(err, relock.ErrLost) {
				return fmt.Errorf("Unlock of what was forced open: %w", err)
			}
		}
		return nil
	})
	close(stop)
	require.NoError(t, err)
	require.Greater(t, receive(t, flushes, "the flusher"), 100)
	require.Greater(t, rounds.Load(), int64(20))
	require.False(t, isClosed(done))
	require.NoError(t, held.Err())
	unlock(t, background, held)
}

// While a script of somebody else keeps the server busy it answers BUSY, after a
// while, to everything.
func TestBusyServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	const lease = 30 * time.Second
	s := redistest.Start(t, "--lua-time-limit", "20")
	session := newSession(t, s, relock.WithWatchdog(lease))
	held, wanted, ended := session.Mutex("held"), session.Mutex("wanted"), session.Mutex("ended")
	lock(t, background, held)
	lock(t, background, ended)
	done := held.Done()
	script := async(func() error {
		_, err := s.Do("EVAL", "while true do end", "0")
		return err
	})
	redistest.Eventually(t, soon, "the server to be busy", func() bool {
		_, err := s.Do("GET", "x")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	ok, err := wanted.TryLock(background)
	require.False(t, ok)
	require.ErrorContains(t, err, "BUSY")
	for d := 200 * time.Millisecond; ; d *= 2 { // until it has lasted for an answer
		ctx, cancel := contextFor(d)
		err = wanted.Lock(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if strings.Contains(err.Error(), "BUSY") {
			break
		}
		require.Less(t, d, lease/8, "it says why")
	}
	locked := async(func() error { return wanted.Lock(background) })
	unlocked := async(func() error { return ended.Unlock(background) })
	time.Sleep(500 * time.Millisecond) // they try again and again
	require.Empty(t, locked)
	require.Empty(t, unlocked)
	_, err = s.Do("SCRIPT", "KILL")
	require.NoError(t, err)
	require.Error(t, receive(t, script, "the script"))
	require.NoError(t, receive(t, locked, "Lock"))
	require.NoError(t, receive(t, unlocked, "Unlock"))
	require.False(t, isClosed(done))
	unlock(t, background, wanted)
	unlock(t, background, held)
}

// A server that is out of memory takes nothing new in, and says so at once; what is
// held is still renewed and released.
func TestHoldsLiveOnWhereMemoryIsFull(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	s := redistest.Start(t)
	session := newSession(t, s, relock.WithWatchdog(lease))
	held, wanted := session.Mutex("held"), session.Mutex("wanted")
	goesOn(t, wanted)
	lock(t, background, held)
	done := held.Done()
	_, err := s.Do("CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, err)
	start := time.Now()
	require.ErrorContains(t, wanted.Lock(background), "OOM")
	ok, err := wanted.TryLock(background)
	require.False(t, ok)
	require.ErrorContains(t, err, "OOM")
	require.Less(t, time.Since(start), quickly)
	time.Sleep(2 * lease) // several renewals
	require.False(t, isClosed(done))
	unlock(t, background, held)
	require.Empty(t, holderID(t, s, "held"))
	require.Empty(t, holderID(t, s, "wanted"), "a failed acquire leaves nothing")
	_, err = s.Do("CONFIG", "SET", "maxmemory", "0")
	require.NoError(t, err)
	goesOn(t, held, wanted)
}

// A server without room for connections turns away whoever must connect anew.
func TestServerWithoutRoomForConnectionsIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	session := newSession(t, s)
	m := session.Mutex("it")
	goesOn(t, m)
	client := newClient(t, s) // connected before, and has an eye on the server
	set := func(n string) {
		require.NoError(t, client.Do(background, client.B().ConfigSet().ParameterValue().
			ParameterValue("maxclients", n).Build()).Error())
	}
	set("1")
	// Its own connection goes on; all others are closed.
	require.NoError(t, client.Do(background, client.B().Arbitrary("CLIENT", "KILL", "TYPE", "PUBSUB").Build()).Error())
	require.NoError(t, client.Do(background, client.B().Arbitrary("CLIENT", "KILL", "SKIPME", "YES").Build()).Error())
	ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
	defer cancel()
	err := m.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	waiting := async(func() error { return m.Lock(background) })
	time.Sleep(100 * time.Millisecond)
	require.Zero(t, len(waiting))
	set("1000")
	require.NoError(t, receive(t, waiting, "Lock"))
	unlock(t, background, m)
}
