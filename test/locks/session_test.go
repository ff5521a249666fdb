package locks_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestCloseReleasesEverything(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		client := kit.NewClient(t, at)
		s := kit.SessionOn(t, client) // with a lease of 30 s
		owner := s.NewContext(kit.Background)
		var held []*relock.Mutex
		for i := range 250 {
			m := s.Mutex(fmt.Sprint("lock-", i), [][]relock.LockOption{nil, {relock.WithFixedLease(time.Hour)}}[i%2]...)
			kit.Lock(t, []context.Context{kit.Background, owner}[i%2], m)
			held = append(held, m)
		}
		kit.Lock(t, owner, held[1])
		require.NoError(t, kit.Together(8, func(int) error { // also at the same time
			if err := s.Close(kit.Background); err != nil {
				return err
			}
			n, err := client.Do(kit.Background, client.B().Exists().Key("lock-0").Build()).AsInt64()
			if n != 0 {
				return errors.New("Close has returned before the lock was released")
			}
			return err
		}))
		require.True(t, kit.IsClosed(s.Done()))
		require.Empty(t, kit.Keys(t, client), "released by the time Close returns, which leaves the client open")
		for i, m := range held {
			require.True(t, kit.IsClosed(m.Done()))
			require.ErrorIs(t, m.Err(), relock.ErrLost)
			require.NotZero(t, m.FencingToken())
			require.ErrorIs(t, m.Unlock([]context.Context{kit.Background, owner}[i%2]), relock.ErrLost)
		}
		require.ErrorIs(t, held[1].Unlock(owner), relock.ErrLost)
		require.ErrorIs(t, held[1].Unlock(owner), relock.ErrNotHeld)
		require.NoError(t, s.Close(kit.Cancelled()), "it is closed already")
	})
}

// Guarantee 8: goroutines and connections do not grow with holds, names or waiters.
// The goroutines that call Lock are the test's own. It is not parallel, since it
// counts the goroutines of the whole process.
func TestMachineryDoesNotGrow(t *testing.T) {
	const names, waiters = 2000, 500
	server := redistest.Start(t)
	holder, s := kit.NewSession(t, server), kit.NewSession(t, server, relock.WithLease(3*time.Second))
	kit.WarmUp(t, holder)
	kit.WarmUp(t, s)
	clients := func() int {
		n, err := strconv.Atoi(server.Info("clients")["connected_clients"])
		require.NoError(t, err)
		return n
	}
	client := kit.NewClient(t, server)
	before, connected := runtime.NumGoroutine(), clients()
	require.NoError(t, kit.Together(8, func(i int) error {
		for n := i; n < names; n += 8 {
			if err := s.Mutex(fmt.Sprint("held-", n)).Lock(kit.Background); err != nil {
				return err
			}
		}
		return nil
	}))
	const slack = 20 // rueidis may go from one goroutine to a few for a connection
	redistest.Eventually(t, kit.Soon, "the goroutines of the test to end", func() bool {
		return runtime.NumGoroutine() <= before+slack
	})
	require.Equal(t, connected, clients(), "with %d holds", names)

	// Half of the waiters wait for one lock, each of the others for one of its own.
	for i := range waiters / 2 {
		kit.Lock(t, kit.Background, holder.Mutex(fmt.Sprint("taken-", i)))
	}
	ctx, cancel := context.WithCancelCause(kit.Background)
	results := make(chan error, waiters)
	for i := range waiters {
		m := s.Mutex(fmt.Sprint("taken-", max(0, i-waiters/2)))
		go func() { results <- m.Lock(ctx) }()
	}
	waiting(t, holder, fmt.Sprint("taken-", waiters/2-1), 1)
	kit.Queued(t, s, "taken-0", waiters/2)
	time.Sleep(time.Second) // for a few renewals
	require.LessOrEqual(t, runtime.NumGoroutine(), before+waiters+slack)
	require.Equal(t, connected, clients(), "with %d waiters", waiters)
	require.LessOrEqual(t, server.PubSubClients(), 2, "one for each session")
	cancel(kit.ErrStop)
	for range waiters {
		require.ErrorIs(t, kit.Receive(t, results, "the waiters to leave"), kit.ErrStop)
	}
	require.NoError(t, s.Close(kit.Background))
	require.NoError(t, holder.Close(kit.Background))
	require.Empty(t, kit.Keys(t, client))
}

// readers returns how many connections of rueidis have goroutines of their own.
func readers() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "rueidis.(*pipe)._backgroundRead(")
}

type onRenewed struct {
	relock.NopObserver
	c chan struct{}
}

func (o onRenewed) Renewed(relock.RenewEvent) { o.c <- struct{}{} }

// Every call that went through the goroutines of the connection took almost twice as
// long: an acquire under a context without an end because of Close, the release and
// the renewals because of the end of the lease, the start of the session because its
// caller may give up.
func TestCallsDoNotMakeRueidisStartGoroutines(t *testing.T) {
	srv := redistest.Start(t)
	before := readers()
	ctx, cancel := context.WithTimeout(kit.Background, kit.Soon)
	defer cancel()
	renewed := onRenewed{c: make(chan struct{}, 10)}
	s, err := relock.NewSession(ctx, kit.NewClient(t, srv), relock.WithLease(6*time.Second), relock.WithObserver(renewed))
	require.NoError(t, err)
	defer s.Close(kit.Background)
	for _, k := range kinds[:4] {
		l := k.on(s, k.name)
		require.NoError(t, l.Lock(kit.Background))
		require.NoError(t, l.Unlock(kit.Background)) // a context that can end must be able to end it
	}
	m := s.Mutex("renewed")
	require.NoError(t, m.Lock(kit.Background))
	kit.Receive(t, renewed.c, "a renewal")
	require.NoError(t, m.Unlock(kit.Background))
	require.LessOrEqual(t, readers(), before+1, "that of the subscriptions has goroutines, and no other")
}

// Holds that expire and that nobody unlocks cost nothing once their handles, and the contexts of
// their owners, are garbage. Each cost 720 bytes until Close.
func TestExpiredHoldsThatNobodyUnlocksLeaveNoMemory(t *testing.T) {
	const handles, goroutines, most = 20_000, 64, 150
	fixed := relock.WithFixedLease(200 * time.Millisecond)
	s := kit.NewSession(t, redistest.Start(t))
	heap := func() uint64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	expire := func(round string, n int) {
		require.NoError(t, kit.Together(goroutines, func(g int) error {
			for i := g; i < n; i += goroutines {
				ctx := kit.Background
				if i/len(kinds)%2 == 0 {
					ctx = s.NewContext(ctx)
				}
				if err := kinds[i%len(kinds)].on(s, fmt.Sprint(round, ":", i), fixed).Lock(ctx); err != nil {
					return err
				}
			}
			return nil
		}))
		last := s.Mutex("last", fixed)
		kit.Lock(t, kit.Background, last)
		kit.Receive(t, last.Done(), "the last one to expire")
	}
	expire("first", 5_000) // tables and stacks grow once
	before := heap()
	expire("then", handles)
	var grown int64
	for range 50 { // what is registered may end a moment later
		if grown = int64(heap() - before); grown < handles*most {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%d bytes each", grown/handles)
	require.Less(t, grown, int64(handles*most), "bytes in all")
	runtime.KeepAlive(s)
}
