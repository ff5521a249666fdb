package locks_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestRedlockIsHeldOnEveryServerAndExcludes(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	r, other := p.redlock("lock"), relock.NewRedlock(p.more(t), "lock")
	require.Equal(t, "lock", r.Name())
	kit.Lock(t, kit.Background, r)
	require.NoError(t, r.Err())
	require.Equal(t, 3, p.holders(t, "lock"))
	deadline, ok := r.Deadline()
	require.True(t, ok)
	require.WithinDuration(t, time.Now().Add(30*time.Second), deadline, 5*time.Second)
	done := r.Done()
	require.False(t, kit.IsClosed(done))

	require.False(t, kit.TryLock(t, kit.Background, other))
	got := kit.Async(func() error { return other.Lock(kit.Background) })
	time.Sleep(20 * time.Millisecond)
	require.Empty(t, got)
	kit.Unlock(t, kit.Background, r)
	require.True(t, kit.IsClosed(done))
	require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
	_, ok = r.Deadline()
	require.False(t, ok)
	require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
	require.NoError(t, kit.Receive(t, got, "the other to get it on the signal"))
	kit.Unlock(t, kit.Background, other)
	p.nothingLeft(t)
}

func TestRedlocksThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m, _ := redistest.Mini(t)
	s, same, mini := kit.NewSession(t, server), kit.NewSession(t, server), kit.NewClient(t, m)
	one, two := kit.SessionOn(t, mini), kit.SessionOn(t, mini)
	for what, c := range map[string]struct {
		sessions []*relock.Session
		name     string
		opts     []relock.LockOption
		want     error
	}{
		"no session":          {nil, "a", nil, relock.ErrOption},
		"a nil session":       {[]*relock.Session{s, nil}, "a", nil, relock.ErrOption},
		"one session twice":   {[]*relock.Session{s, s}, "a", nil, relock.ErrOption},
		"one server twice":    {[]*relock.Session{s, same}, "a", nil, relock.ErrOption},
		"one client twice":    {[]*relock.Session{one, two}, "a", nil, relock.ErrOption}, // miniredis has no run id
		"a bad name":          {[]*relock.Session{s}, "a}", nil, relock.ErrName},
		"an option too small": {[]*relock.Session{s}, "a", []relock.LockOption{relock.WithFixedLease(1)}, relock.ErrOption},
	} {
		r := relock.NewRedlock(c.sessions, c.name, c.opts...)
		for method, err := range callAll(t, r) {
			if method == "Err" {
				require.ErrorIs(t, err, relock.ErrNotHeld, what)
			} else {
				require.ErrorIs(t, err, c.want, "%s: %s", what, method)
			}
		}
	}
}

// One, two and four servers are no better than none, one and three, and allowed.
func TestRedlockOverAnyNumberOfServers(t *testing.T) {
	t.Parallel()
	p := newSite(t, 4)
	for n := 1; n <= 4; n++ {
		r := relock.NewRedlock(p.sessions[:n], "lock")
		for range 3 {
			kit.Lock(t, kit.Background, r)
			require.Equal(t, n, p.holders(t, "lock"))
			kit.Unlock(t, kit.Background, r)
			require.True(t, kit.TryLock(t, kit.Background, r))
			kit.Unlock(t, kit.Background, r)
		}
		p.nothingLeft(t)
	}
}

func TestRedlockIsReentrantForItsOwner(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	s := p.sessions[0]
	ctx := s.NewContext(kit.Background)
	r, same := p.redlock("lock"), relock.NewRedlock([]*relock.Session{p.sessions[2], p.sessions[1], s}, "lock")
	kit.Lock(t, ctx, r)
	cost := trafficOf(p.servers[0], func() {
		kit.Lock(t, ctx, r)
		kit.Lock(t, ctx, same)
		require.True(t, kit.TryLock(t, ctx, same))
		require.False(t, kit.TryLock(t, kit.Background, r))
		require.False(t, kit.TryLock(t, s.NewContext(kit.Background), same))
		require.ErrorIs(t, r.Unlock(s.NewContext(kit.Background)), relock.ErrNotHeld)
		kit.Unlock(t, ctx, same)
		kit.Unlock(t, ctx, r)
		kit.Unlock(t, kit.Background, same)
	})
	require.Zero(t, cost)
	require.NoError(t, r.Err())
	kit.Unlock(t, ctx, r)
	require.ErrorIs(t, r.Unlock(ctx), relock.ErrNotHeld)
	p.nothingLeft(t)
}

// Goroutines of one owner do not exclude each other, also when they ask at the same time.
func TestGoroutinesOfOneOwnerShareARedlock(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	ctx := p.sessions[0].NewContext(kit.Background)
	for range 20 {
		r := p.redlock("lock")
		var in atomic.Int64
		both := make(chan struct{})
		require.NoError(t, kit.Together(4, func(int) error {
			if err := r.Lock(ctx); err != nil {
				return err
			}
			if in.Add(1) == 4 {
				close(both)
			}
			kit.Receive(t, both, "all of them to be in")
			return r.Unlock(ctx)
		}))
	}
	p.nothingLeft(t)
}

// The goroutines of a process queue for it in the process, and hand it on while the
// tenure lasts.
func TestRedlockIsHandedOnWithinAProcess(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3, relock.WithTenure(time.Minute))
	r := p.redlock("lock")
	kit.Lock(t, kit.Background, r)
	kit.Unlock(t, kit.Background, r) // the scripts are known
	kit.Lock(t, kit.Background, r)
	var got []<-chan error
	for range 10 {
		got = append(got, kit.Async(func() error { return relock.Do(kit.Background, r, func(context.Context) error { return nil }) }))
	}
	redistest.Eventually(t, kit.Soon, "all to queue", func() bool { return peek.RedlockQueued(r) == 10 })
	cost := trafficOf(p.servers[0], func() {
		kit.Unlock(t, kit.Background, r)
		for _, c := range got {
			require.NoError(t, kit.Receive(t, c, "its turn"))
		}
	})
	require.Equal(t, traffic{scripts: 1, released: 1}, cost, "nothing is asked, and it is released once")
	p.nothingLeft(t)
}

func TestARedlockWithoutTenureIsNotHandedOn(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3, relock.WithTenure(0))
	r, bounded := p.redlock("lock"), p.redlock("lock", relock.WithMaxHold(time.Minute))
	var n int64
	cost := trafficOf(p.servers[0], func() {
		require.NoError(t, kit.Together(4, func(i int) error {
			for range 5 {
				l := []*relock.Redlock{r, bounded}[i%2]
				if err := relock.Do(kit.Background, l, func(context.Context) error { n++; return nil }); err != nil {
					return err
				}
			}
			return nil
		}))
	})
	require.EqualValues(t, 20, n)
	require.EqualValues(t, 20, cost.acquired)
	p.nothingLeft(t)
}

// Processes that ask at the same time each get some of the servers. One of them has to
// get them all in the end.
func TestRedlocksOfSeveralProcessesExclude(t *testing.T) {
	t.Parallel()
	p := newSite(t, 5)
	const processes, rounds = 4, 25
	var inside, n atomic.Int64
	require.NoError(t, kit.Together(processes, func(int) error {
		r := relock.NewRedlock(p.more(t), "lock")
		ctx, cancel := context.WithTimeout(kit.Background, time.Minute)
		defer cancel()
		for range rounds {
			err := relock.Do(ctx, r, func(context.Context) error {
				if inside.Add(1) != 1 {
					return fmt.Errorf("two at the same time")
				}
				n.Add(1)
				inside.Add(-1)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	require.EqualValues(t, processes*rounds, n.Load())
	p.nothingLeft(t)
}

func TestErrorsOfARedlockNameTheDeployment(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	for i, c := range p.clients[:2] {
		require.NoError(t, c.Do(kit.Background, c.B().Set().Key("lock").Value("not a lock").Build()).Error(), i)
	}
	r := p.redlock("lock")
	err := r.Lock(kit.Background) // an error that stays ends it at once
	require.ErrorContains(t, err, "WRONGTYPE")
	require.ErrorContains(t, err, "deployment 1 of 3")
	require.ErrorContains(t, err, "deployment 2 of 3")
	require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
	_, err = r.TryLock(kit.Background)
	require.ErrorContains(t, err, "WRONGTYPE")
	redistest.Eventually(t, kit.Quickly, "the third to be free", func() bool { return !kit.Exists(t, p.clients[2], "lock") })

	require.NoError(t, p.clients[0].Do(kit.Background, p.clients[0].B().Del().Key("lock").Build()).Error())
	kit.Lock(t, kit.Background, r) // two of three are a majority
	kit.Unlock(t, kit.Background, r)
}
