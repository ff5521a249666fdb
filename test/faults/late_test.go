package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// slow gives a client timeouts of its own that are longer than any test waits.
func slow(o *rueidis.ClientOption) {
	o.Dialer.Timeout, o.Dialer.KeepAlive, o.ConnWriteTimeout = 2*time.Minute, 2*time.Minute, 2*time.Minute
}

// Every call ends with its own context while Redis hangs, whatever rueidis does then: it dials, its queue is full,
// or it is in its synchronous mode. Some of these calls came back with rueidis' timeouts, or when Redis was back.
func TestCallsEndWithTheirContextsInsideRueidis(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.StartReplicas(t, 1)
	replicas := relock.WithReplicas(1, time.Second)
	for what, c := range map[string]struct {
		client func(*rueidis.ClientOption)
		opts   []relock.SessionOption
		fill   bool // the application fills the client's queue
	}{
		"alone":              {client: func(*rueidis.ClientOption) {}},
		"with replicas":      {client: func(*rueidis.ClientOption) {}, opts: []relock.SessionOption{replicas}},
		"no pipelining":      {client: func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true }},
		"always pipelined":   {client: func(o *rueidis.ClientOption) { o.AlwaysPipelining = true }},
		"RESP2":              {client: func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true }},
		"a full queue":       {client: func(*rueidis.ClientOption) {}, fill: true},
		"a full small queue": {client: func(o *rueidis.ClientOption) { o.RingScaleEachConn = 3 }, fill: true},
	} {
		t.Run(what, func(t *testing.T) { // one after the other: they freeze the server
			client := kit.NewClient(t, primary, slow, c.client)
			session := kit.SessionOn(t, client, c.opts...)
			held, wanted := session.Mutex(what+" held"), session.Mutex(what+" wanted")
			goesOn(t, wanted)
			kit.Lock(t, kit.Background, held)
			red := relock.NewRedlock([]*relock.Session{session}, what+" red")

			require.NoError(t, primary.Freeze())
			defer func() { _ = primary.Thaw() }()
			filled := make(chan error, 1)
			if c.fill {
				go func() { // ends when Redis is back
					filled <- kit.Together(4000, func(int) error {
						return client.Do(kit.Background, client.B().Incr().Key("n").Build()).Error()
					})
				}()
				time.Sleep(200 * time.Millisecond)
			}
			for name, call := range map[string]func(ctx context.Context) error{
				"Lock":         wanted.Lock,
				"Redlock.Lock": red.Lock,
				"TryLock": func(ctx context.Context) error {
					_, err := wanted.TryLock(ctx)
					return err
				},
				"Inspect": func(ctx context.Context) error {
					_, err := session.Inspect(ctx, "a")
					return err
				},
				"NewSession": func(ctx context.Context) error {
					_, err := relock.NewSession(ctx, client)
					return err
				},
			} {
				ctx, cancel := context.WithTimeout(kit.Background, 200*time.Millisecond)
				defer cancel()
				err := kit.Receive(t, kit.Async(func() error { return call(ctx) }), name)
				require.ErrorIs(t, err, context.DeadlineExceeded, name)
			}
			unlocked := kit.Async(func() error { return held.Unlock(kit.Background) })
			require.NoError(t, kit.Receive(t, unlocked, "Unlock"))

			require.NoError(t, primary.Thaw())
			if c.fill {
				require.NoError(t, kit.Receive(t, filled, "the application's commands"))
			}
			goesOn(t, wanted, held)
		})
	}
}

// The commands of a session execute in the order in which they are sent: they share one connection, also where the
// client takes one of its pool for each command.
func TestSessionHasOneConnectionForCommands(t *testing.T) {
	t.Parallel()
	_, p := kit.Proxied(t)
	session := kit.SessionOn(t, kit.NewClient(t, p, func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true }))
	before := p.Accepted()
	require.NoError(t, kit.Together(100, func(i int) error {
		m := session.Mutex(fmt.Sprint(i))
		return errors.Join(m.Lock(kit.Background), m.Unlock(kit.Background))
	}))
	require.Equal(t, before, p.Accepted(), "connections")
	require.LessOrEqual(t, p.Connections(), 2, "that for commands, and that of the subscription")
}

// watch counts rounds of renewals that have failed.
type watch struct {
	relock.NopObserver
	failed atomic.Int32
}

func (w *watch) Renewed(e relock.RenewEvent) {
	if e.Err != nil {
		w.failed.Add(1)
	}
}

// The application's commands wait for a server that is busy as long as they like. Bounds of the library's own, as that
// of Unlock, closed the connection that both share.
func TestBoundsOfTheLibraryLeaveTheApplicationAlone(t *testing.T) {
	t.Parallel()
	for what, f := range map[string]func(t *testing.T, m *relock.Mutex, w *watch){
		"Unlock": func(t *testing.T, m *relock.Mutex, w *watch) {
			require.NoError(t, kit.Receive(t, kit.Async(func() error { return m.Unlock(kit.Background) }), "Unlock"))
		},
		"renewals": func(t *testing.T, m *relock.Mutex, w *watch) {
			redistest.Eventually(t, kit.Soon, "renewals to fail", func() bool { return w.failed.Load() > 1 })
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, w := redistest.Start(t), new(watch)
			client := kit.NewClient(t, s, slow)
			m := kit.SessionOn(t, client, relock.WithLease(6*time.Second), relock.WithObserver(w)).Mutex("it")
			require.NoError(t, m.Lock(kit.Background)) // the connection stays in its synchronous mode
			if what == "renewals" {                    // they come after 2 s
				time.Sleep(1700 * time.Millisecond)
			}
			require.NoError(t, s.Freeze())
			ended := kit.Async(func() struct{} { f(t, m, w); return struct{}{} })
			time.Sleep(500 * time.Millisecond) // the library's command comes first
			incr := kit.Async(func() error { return client.Do(kit.Background, client.B().Incr().Key("n").Build()).Error() })
			kit.Receive(t, ended, what)
			require.NoError(t, s.Thaw())
			require.NoError(t, kit.Receive(t, incr, "the application's command"))
		})
	}
}

// Calls that end while they wait for a connection of the client's pool leave the pool as large as it was.
func TestCancelledCallsLeaveThePoolAsLargeAsItIs(t *testing.T) {
	t.Parallel()
	const size = 4
	primary, replicas := redistest.StartReplicas(t, 1)
	for what, call := range map[string]func(ctx context.Context, t *testing.T, s *relock.Session, c rueidis.Client, i int) error{
		"Lock": func(ctx context.Context, t *testing.T, s *relock.Session, _ rueidis.Client, i int) error {
			return s.Mutex(fmt.Sprint("lock ", i)).Lock(ctx)
		},
		"NewSession": func(ctx context.Context, _ *testing.T, _ *relock.Session, c rueidis.Client, _ int) error {
			s, err := relock.NewSession(ctx, c)
			if err == nil {
				_ = s.Close(kit.Background)
				err = context.DeadlineExceeded
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) { // one after the other: they freeze the replica
			client := kit.NewClient(t, primary, poolOf(size))
			s := kit.SessionOn(t, client, relock.WithReplicas(1, kit.Soon)) // has one connection
			require.NoError(t, replicas[0].Freeze())
			giveBack := func() {}
			if what == "NewSession" {
				giveBack = takePool(t, size-1, client)
			}
			require.NoError(t, kit.Together(30, func(i int) error {
				ctx, cancel := kit.ContextFor(300 * time.Millisecond)
				defer cancel()
				if err := call(ctx, t, s, client, i); !errors.Is(err, context.DeadlineExceeded) {
					return err
				}
				return nil
			}))
			require.NoError(t, replicas[0].Thaw())
			giveBack()
			giveBack = takePool(t, size-1, client)
			fifth := kit.Async(func() func() { _, put := client.Dedicate(); return put })
			select {
			case <-fifth:
				t.Error("the pool has become larger")
			case <-time.After(500 * time.Millisecond):
				giveBack()
				kit.Receive(t, fifth, "a connection")()
			}
		})
	}
}

// A slow replica is not an exhausted pool: a call that ended with its context while it waited for replicas said so.
func TestSlowReplicaIsNotAnExhaustedPool(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	m := kit.NewSession(t, primary, relock.WithReplicas(1, kit.Soon)).Mutex("it")
	goesOn(t, m)
	require.NoError(t, replicas[0].Freeze())
	ctx, cancel := kit.ContextFor(2500 * time.Millisecond)
	defer cancel()
	err := m.Lock(ctx)
	require.ErrorIs(t, err, kit.ErrStop)
	require.NotContains(t, err.Error(), "pool")
	require.NoError(t, replicas[0].Thaw())
}

// A TryLock right after a connection was lost returned the error of that, though it could be had by another try.
func TestTryLockOutlivesALostConnection(t *testing.T) {
	t.Parallel()
	s, p := kit.Proxied(t)
	session := kit.NewSession(t, p)
	m := session.Mutex("it")
	for range 20 {
		goesOn(t, m)
		p.Cut()
		ctx, cancel := kit.ContextFor(kit.Soon)
		defer cancel()
		ok, err := m.TryLock(ctx)
		require.NoError(t, err)
		require.True(t, ok)
		kit.Unlock(t, kit.Background, m)
		p.Cut()
		_, err = session.Inspect(ctx, "it")
		require.NoError(t, err)
	}
	freed(t, s, "it")
}

// The application has closed the client. A call says so, and does not blame another holder.
func TestClosedClientIsNotATakenLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	kit.Lock(t, kit.Background, kit.NewSession(t, server).Mutex("held"))
	client := kit.NewClient(t, server)
	s, err := relock.NewSession(kit.Background, client)
	require.NoError(t, err)
	waits := kit.Async(func() error { return s.Mutex("held").Lock(kit.Background) })
	kit.Waits(t, s, "held")
	client.Close()
	for name, err := range map[string]error{
		"waits":   kit.Receive(t, waits, "Lock whose client is closed"),
		"Lock":    s.Mutex("held").Lock(kit.Background),
		"Acquire": func() error { _, err := s.Mutex("free").Acquire(kit.Background); return err }(),
		"TryLock": func() error { _, err := s.Mutex("held").TryLock(kit.Background); return err }(),
	} {
		require.ErrorIs(t, err, rueidis.ErrClosing, name)
		require.NotErrorIs(t, err, relock.ErrTaken, name)
	}
	_ = s.Close(kit.Background)
}
