package faults_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// ownID returns the id of the session's own connection: the last one that ran a script, besides the
// shared one.
func clientsOf(t testing.TB, s *redistest.Server) (ids map[string]string) {
	ids = make(map[string]string)
	for line := range strings.Lines(do(t, s, "CLIENT", "LIST").(string)) {
		f := make(map[string]string)
		for kv := range strings.FieldsSeq(line) {
			k, v, _ := strings.Cut(kv, "=")
			f[k] = v
		}
		ids[f["id"]] = f["cmd"] + " sub=" + f["sub"] + " idle=" + f["idle"]
	}
	return ids
}

// The old primary hangs, a replica takes over, and the session follows the address to it. When the
// old one wakes up, nobody has told it that it is not the primary any more: it says master. The
// session, which has a connection of its own that works, goes back to it, so that a lock of the new
// primary is held twice: exclusion.
func TestSessionDoesNotGoBackToAnOldPrimaryThatWakesUp(t *testing.T) {
	t.Parallel()
	primary, replica, p := moving(t)
	s := kit.SessionOn(t, kit.NewClient(t, p, patient), relock.WithLease(10*time.Second))
	t.Cleanup(p.Cut)
	m := s.Mutex("free")
	goesOn(t, m)
	failover(t, p, primary, replica, oldPrimaries["hangs"])
	goesOn(t, m)

	// Another process, which has only ever seen the new primary, works with the lock.
	theirs := kit.NewSession(t, p).Mutex("free")
	goesOn(t, m) // both are on the new primary
	require.NoError(t, primary.Thaw())

	value, inside := 0, false
	both := 0
	var mu sync.Mutex
	section := func(l *relock.Mutex) error {
		ctx, cancel := context.WithTimeout(kit.Background, kit.Soon)
		defer cancel()
		return relock.Do(ctx, l, func(context.Context) error {
			mu.Lock()
			if inside {
				both++
			}
			inside = true
			v := value
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			value, inside = v+1, false
			mu.Unlock()
			return nil
		})
	}
	n := 0
	var wg sync.WaitGroup
	stop := time.Now().Add(5 * time.Second)
	for _, l := range []*relock.Mutex{m, theirs} {
		wg.Go(func() {
			for time.Now().Before(stop) {
				if section(l) == nil {
					mu.Lock()
					n++
					mu.Unlock()
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	require.Zero(t, both, "sections that overlapped, of %d", n)
	require.GreaterOrEqual(t, value, n, "updates that were lost")
}

// As before, but it is the session's own connection to the new primary that breaks, after the old
// one has woken up, which takes itself for the primary. Each new connection leads to the new one.
func TestBrokenOwnConnectionDoesNotLeadBackToAnOldPrimary(t *testing.T) {
	t.Parallel()
	primary, replica, p := moving(t)
	s := kit.SessionOn(t, kit.NewClient(t, p, patient), relock.WithLease(10*time.Second))
	t.Cleanup(p.Cut)
	m := s.Mutex("free")
	goesOn(t, m)
	failover(t, p, primary, replica, oldPrimaries["hangs"])
	goesOn(t, m)
	theirs := kit.NewSession(t, replica).Mutex("free")
	require.NoError(t, primary.Thaw())
	time.Sleep(3 * time.Second) // it has looked at the shared connection
	held := s.Mutex("held")
	kit.Lock(t, kit.Background, held)
	killNormal(replica)
	overlaps, mine := overlapping(t, m, theirs, 6*time.Second)
	require.Zero(t, overlaps, "of %d", mine)
	require.NotZero(t, mine)
	require.NoError(t, held.Err())
}

// A session has a connection of its own, the server goes away, and comes back: the session goes on,
// and what it cannot do meanwhile says why.
func TestOwnConnectionOfAServerThatGoesAway(t *testing.T) {
	t.Parallel()
	server, p := kit.Proxied(t)
	s := kit.SessionOn(t, kit.NewClient(t, p, patient), relock.WithLease(20*time.Second))
	t.Cleanup(p.Cut)
	m, held := s.Mutex("free"), s.Mutex("held")
	kit.Lock(t, kit.Background, held)
	goesOn(t, m)
	p.Forget()
	goesOn(t, m)
	p.Refuse(true)
	do(t, server, "CLIENT", "KILL", "TYPE", "normal")
	for range 3 {
		ctx, cancel := context.WithTimeout(kit.Background, 2*time.Second)
		err := m.Lock(ctx)
		cancel()
		require.ErrorIs(t, err, relock.ErrUnavailable)
		t.Log(err)
	}
	p.Refuse(false)
	goesOn(t, m)
	require.NoError(t, held.Err())
}

// Each time that the session's own connection breaks it goes back to the shared one, which hangs,
// with new places: 512 calls more are left behind there, without bound (of goroutines, and of the
// client's queue of 1024, which other users need).
//
// It counts the goroutines of the process, and therefore runs alone.
func TestCallsLeftBehindAreBoundedAcrossSwitches(t *testing.T) {
	server, p := kit.Proxied(t)
	s := kit.SessionOn(t, kit.NewClient(t, p, patient))
	t.Cleanup(p.Cut)
	m := s.Mutex("it")
	goesOn(t, m)
	shared := clientsOf(t, server)
	before := runtime.NumGoroutine()
	p.Hold(true)
	cancelled := func() {
		ctx, cancel := context.WithTimeout(kit.Background, 300*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() { _, _ = s.Mutex(fmt.Sprint("m", i)).TryLock(ctx) })
		}
		wg.Wait()
	}
	var seen []int
	for range 4 {
		cancelled()
		goesOn(t, m)
		seen = append(seen, runtime.NumGoroutine()-before)
		for id, what := range clientsOf(t, server) {
			if shared[id] == "" && strings.Contains(what, "sub=0") && !strings.HasPrefix(what, "client") {
				_, _ = server.Do("CLIENT", "KILL", "ID", id)
			}
		}
	}
	t.Log(seen)
	redistest.Eventually(t, kit.Soon, "no more goroutines than after the first switches", func() bool {
		return runtime.NumGoroutine()-before < 700 // the clean-up after the last switch may be under way
	})
}

// While the session has a connection of its own it asks the shared one each second whether it works
// again. Each question is left behind there, with a goroutine and a place in the client's queue,
// for as long as that hangs.
//
// It counts the goroutines of the process, and therefore runs alone.
func TestQuestionsToASilentConnectionDoNotPileUp(t *testing.T) {
	_, p := kit.Proxied(t)
	s := kit.SessionOn(t, kit.NewClient(t, p, patient))
	t.Cleanup(p.Cut)
	m := s.Mutex("it")
	goesOn(t, m)
	p.Hold(true)
	goesOn(t, m)
	time.Sleep(3 * time.Second)
	count := func() int {
		buf := make([]byte, 1<<22)
		return strings.Count(string(buf[:runtime.Stack(buf, true)]), "transport.(*sending).send(")
	}
	before := count()
	time.Sleep(12 * time.Second)
	after := count()
	require.LessOrEqual(t, after, before+2, "goroutines that send: %d, then %d", before, after)
}

// A call was left behind on the shared connection, which hangs; the session works. Close without a
// deadline waits for that.
func TestCloseDoesNotWaitForAConnectionThatWasLeft(t *testing.T) {
	t.Parallel()
	_, p := kit.Proxied(t)
	s := kit.SessionOn(t, kit.NewClient(t, p, patient))
	t.Cleanup(p.Cut)
	m := s.Mutex("it")
	goesOn(t, m)
	p.Hold(true)
	goesOn(t, m)
	closed := kit.Async(func() error { return s.Close(kit.Background) })
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(8 * time.Second):
		p.Cut()
		t.Fatal("Close does not return within 8 s")
	}
}

// A server that freezes each second. How often does the session dial?
func TestFlappingServerIsNotDialledWithoutBound(t *testing.T) {
	t.Parallel()
	server, p := kit.Proxied(t)
	s := kit.SessionOn(t, kit.NewClient(t, p), relock.WithLease(20*time.Second))
	t.Cleanup(p.Cut)
	goesOn(t, s.Mutex("it"))
	held := s.Mutex("held")
	kit.Lock(t, kit.Background, held)
	ctx, cancel := context.WithCancel(kit.Background)
	var wg sync.WaitGroup
	for range 8 {
		m := s.Mutex("it")
		wg.Go(func() {
			for ctx.Err() == nil {
				c, stop := context.WithTimeout(ctx, 700*time.Millisecond)
				at := time.Now()
				if m.Lock(c) == nil {
					_ = m.Unlock(kit.Background)
				}
				if d := time.Since(at); d > 900*time.Millisecond && c.Err() == nil {
					t.Errorf("Lock and Unlock took %v", d)
				}
				stop()
			}
		})
	}
	a0 := p.Accepted()
	var rate []int64
	for range 15 {
		require.NoError(t, server.Freeze())
		time.Sleep(time.Second)
		require.NoError(t, server.Thaw())
		time.Sleep(time.Second)
		rate = append(rate, p.Accepted()-a0)
	}
	cancel()
	wg.Wait()
	t.Log(rate, p.Connections())
	require.NoError(t, held.Err())
	require.Less(t, rate[len(rate)-1], int64(60))
}

// NewSession on a server that hangs returns later than its context.
func TestNewSessionReturnsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 400 * time.Millisecond, 2500 * time.Millisecond} {
		server, p := kit.Proxied(t)
		c := kit.NewClient(t, p, patient)
		require.NoError(t, c.Do(kit.Background, c.B().Ping().Build()).Error())
		require.NoError(t, server.Freeze())
		ctx, cancel := context.WithTimeout(kit.Background, after+200*time.Millisecond)
		_, err := relock.NewSession(ctx, c)
		d, _ := ctx.Deadline()
		late := time.Since(d)
		cancel()
		p.Cut()
		require.NoError(t, server.Thaw())
		require.Error(t, err)
		t.Log(after, late)
		require.Less(t, late, 150*time.Millisecond)
	}
}

// The user may not ask for the role (no ROLE), and the server has become a replica, for good: each
// quarter of a second the session dials anew, and ends the calls under way.
func TestReplicaThatHidesItsRoleIsNotDialledWithoutBound(t *testing.T) {
	t.Parallel()
	server, p := kit.Proxied(t)
	do(t, server, "ACL", "SETUSER", "default", "-role")
	s := kit.SessionOn(t, kit.NewClient(t, p), relock.WithLease(20*time.Second))
	t.Cleanup(p.Cut)
	goesOn(t, s.Mutex("it"))
	do(t, server, "REPLICAOF", "127.0.0.1", "1")
	a0 := p.Accepted()
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(kit.Background, 10*time.Second)
	defer cancel()
	for i := range 10 {
		wg.Go(func() { _ = s.Mutex(fmt.Sprint("m", i)).Lock(ctx) })
	}
	wg.Wait()
	n := p.Accepted() - a0
	t.Log(n)
	require.Less(t, n, int64(12))
}
