package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A server that forgets its scripts, all the time, is noticed by nobody: not by a
// renewal with little time, nor by calls of any kind.
func TestForgottenScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	s := redistest.Start(t)
	keeper := kit.NewSession(t, s, relock.WithLease(lease))
	user := kit.NewSession(t, s, relock.WithLease(lease), relock.WithTenure(0))
	held := keeper.Mutex("held")
	kit.Lock(t, kit.Background, held)
	done := held.Done()

	stop := make(chan struct{})
	flushes := kit.Async(func() (n int) {
		for ; !kit.IsClosed(stop); n++ {
			if _, err := s.Do("SCRIPT", "FLUSH"); err != nil {
				t.Error(err)
				return n
			}
		}
		return n
	})
	var rounds atomic.Int64
	end := time.Now().Add(kit.Stress(t, 3*time.Second))
	err := kit.Together(3, func(i int) error {
		name := fmt.Sprint("used ", i)
		m := user.Mutex(name)
		for ; time.Now().Before(end); rounds.Add(1) {
			if err := m.Lock(kit.Background); err != nil {
				return err
			}
			if state, err := user.Inspect(kit.Background, name); err != nil || state.Mode != relock.Exclusive {
				return fmt.Errorf("inspected %v, %w", state, err)
			}
			if err := m.Unlock(kit.Background); err != nil {
				return err
			}
			if ok, err := m.TryLock(kit.Background); !ok || err != nil {
				return fmt.Errorf("TryLock %v, %w", ok, err)
			}
			if was, err := keeper.ForceUnlock(kit.Background, name); !was || err != nil {
				return fmt.Errorf("ForceUnlock %v, %w", was, err)
			}
			if err := m.Unlock(kit.Background); !errors.Is(err, relock.ErrLost) {
				return fmt.Errorf("Unlock of what was forced open: %w", err)
			}
		}
		return nil
	})
	close(stop)
	require.NoError(t, err)
	require.Greater(t, kit.Receive(t, flushes, "the flusher"), 100)
	require.Greater(t, rounds.Load(), int64(20))
	require.False(t, kit.IsClosed(done))
	require.NoError(t, held.Err())
	kit.Unlock(t, kit.Background, held)
}

// While a script of somebody else keeps the server busy it answers BUSY, after a
// while, to everything.
func TestBusyServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	const lease = 30 * time.Second
	s := redistest.Start(t, "--lua-time-limit", "20")
	session := kit.NewSession(t, s, relock.WithLease(lease))
	held, wanted, ended := session.Mutex("held"), session.Mutex("wanted"), session.Mutex("ended")
	kit.Lock(t, kit.Background, held)
	kit.Lock(t, kit.Background, ended)
	done := held.Done()
	script := kit.Async(func() error {
		_, err := s.Do("EVAL", "while true do end", "0")
		return err
	})
	redistest.Eventually(t, kit.Soon, "the server to be busy", func() bool {
		_, err := s.Do("GET", "x")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	ok, err := wanted.TryLock(kit.Background)
	require.False(t, ok)
	require.ErrorContains(t, err, "BUSY")
	for d := 200 * time.Millisecond; ; d *= 2 { // until it has lasted for an answer
		ctx, cancel := kit.ContextFor(d)
		err = wanted.Lock(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if strings.Contains(err.Error(), "BUSY") {
			break
		}
		require.Less(t, d, lease/8, "it says why")
	}
	locked := kit.Async(func() error { return wanted.Lock(kit.Background) })
	unlocked := kit.Async(func() error { return ended.Unlock(kit.Background) })
	time.Sleep(500 * time.Millisecond) // they try again and again
	require.Empty(t, locked)
	require.Empty(t, unlocked)
	_, err = s.Do("SCRIPT", "KILL")
	require.NoError(t, err)
	require.Error(t, kit.Receive(t, script, "the script"))
	require.NoError(t, kit.Receive(t, locked, "Lock"))
	require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
	require.False(t, kit.IsClosed(done))
	kit.Unlock(t, kit.Background, wanted)
	kit.Unlock(t, kit.Background, held)
}

// A server that is out of memory takes nothing new in, and says so at once; what is
// held is still renewed and released.
func TestHoldsSurviveWhereMemoryIsFull(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	s := redistest.Start(t)
	session := kit.NewSession(t, s, relock.WithLease(lease))
	held, wanted := session.Mutex("held"), session.Mutex("wanted")
	goesOn(t, wanted)
	kit.Lock(t, kit.Background, held)
	done := held.Done()
	_, err := s.Do("CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, err)
	require.ErrorContains(t, wanted.Lock(kit.Background), "OOM")
	ok, err := wanted.TryLock(kit.Background)
	require.False(t, ok)
	require.ErrorContains(t, err, "OOM")
	time.Sleep(2 * lease) // several renewals
	require.False(t, kit.IsClosed(done))
	kit.Unlock(t, kit.Background, held)
	require.Empty(t, holderID(t, s, "held"))
	require.Empty(t, holderID(t, s, "wanted"), "a failed acquire leaves nothing")
	_, err = s.Do("CONFIG", "SET", "maxmemory", "0")
	require.NoError(t, err)
	goesOn(t, held, wanted)
}

// A server without room for connections turns away whoever must connect again.
func TestServerWithoutRoomForConnectionsIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	session := kit.NewSession(t, s)
	m := session.Mutex("it")
	goesOn(t, m)
	client := kit.NewClient(t, s) // connected before, and has an eye on the server
	set := func(n string) {
		require.NoError(t, client.Do(kit.Background, client.B().ConfigSet().ParameterValue().
			ParameterValue("maxclients", n).Build()).Error())
	}
	set("1")
	// Its own connection goes on; all others are closed.
	require.NoError(t, client.Do(kit.Background, client.B().Arbitrary("CLIENT", "KILL", "TYPE", "PUBSUB").Build()).Error())
	require.NoError(t, client.Do(kit.Background, client.B().Arbitrary("CLIENT", "KILL", "SKIPME", "YES").Build()).Error())
	ctx, cancel := context.WithTimeout(kit.Background, 300*time.Millisecond)
	defer cancel()
	err := m.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	waiting := kit.Async(func() error { return m.Lock(kit.Background) })
	time.Sleep(100 * time.Millisecond)
	require.Zero(t, len(waiting))
	set("1000")
	require.NoError(t, kit.Receive(t, waiting, "Lock"))
	kit.Unlock(t, kit.Background, m)
}
