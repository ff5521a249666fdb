package faults_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// While a script of somebody else keeps the server busy it answers BUSY to everything.
func TestBusyServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--lua-time-limit", "20")
	session := kit.NewSession(t, s)
	held, wanted, ended := session.Mutex("held"), session.Mutex("wanted"), session.Mutex("ended")
	kit.Lock(t, kit.Background, held)
	kit.Lock(t, kit.Background, ended)
	free := redistest.KeepBusy(t, s)
	_, err := wanted.TryLock(kit.Background)
	require.ErrorContains(t, err, "BUSY")
	redistest.Eventually(t, kit.Soon, "Lock to say why", func() bool {
		ctx, cancel := kit.ContextFor(500 * time.Millisecond)
		defer cancel()
		err := wanted.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return strings.Contains(err.Error(), "BUSY")
	})
	locked := kit.Async(func() error { return wanted.Lock(kit.Background) })
	unlocked := kit.Async(func() error { return ended.Unlock(kit.Background) })
	time.Sleep(500 * time.Millisecond) // they try again and again
	require.Empty(t, locked)
	require.Empty(t, unlocked)
	free()
	require.NoError(t, kit.Receive(t, locked, "Lock"))
	require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
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
