package relock_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestRedlockIsHeldOnEveryServerAndExcludes(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	r, other := p.redlock("lock"), relock.NewRedlock(p.more(t), "lock")
	require.Equal(t, "lock", r.Name())
	lock(t, background, r)
	require.NoError(t, r.Err())
	require.Equal(t, 3, p.holders(t, "lock"))
	deadline, ok := r.Deadline()
	require.True(t, ok)
	require.WithinDuration(t, time.Now().Add(30*time.Second), deadline, 5*time.Second)
	done := r.Done()
	require.False(t, isClosed(done))

	require.False(t, tryLock(t, background, other))
	got := async(func() error { return other.Lock(background) })
	time.Sleep(20 * time.Millisecond)
	require.Empty(t, got)
	unlock(t, background, r)
	require.True(t, isClosed(done))
	require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
	_, ok = r.Deadline()
	require.False(t, ok)
	require.ErrorIs(t, r.Unlock(background), relock.ErrNotHeld)
	require.NoError(t, receive(t, got, "the other to get it on the signal"))
	unlock(t, background, other)
	p.nothingLeft(t)
}

func TestRedlocksThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m, _ := redistest.Mini(t)
	s, same, mini := newSession(t, server), newSession(t, server), newClient(t, m)
	one, two := sessionOn(t, mini), sessionOn(t, mini)
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
		"an option too small": {[]*relock.Session{s}, "a", []relock.LockOption{relock.WithLease(1)}, relock.ErrOption},
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
			lock(t, background, r)
			require.Equal(t, n, p.holders(t, "lock"))
			unlock(t, background, r)
			require.True(t, tryLock(t, background, r))
			unlock(t, background, r)
		}
		p.nothingLeft(t)
	}
}

func TestRedlockIsReentrantForItsOwner(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	s := p.sessions[0]
	ctx := s.NewContext(background)
	r, same := p.redlock("lock"), relock.NewRedlock([]*relock.Session{p.sessions[2], p.sessions[1], s}, "lock")
	lock(t, ctx, r)
	cost := trafficOf(p.servers[0], func() {
		lock(t, ctx, r)
		lock(t, ctx, same)
		require.True(t, tryLock(t, ctx, same))
		require.False(t, tryLock(t, background, r))
		require.False(t, tryLock(t, s.NewContext(background), same))
		require.ErrorIs(t, r.Unlock(s.NewContext(background)), relock.ErrNotHeld)
		unlock(t, ctx, same)
		unlock(t, ctx, r)
		unlock(t, background, same)
	})
	require.Zero(t, cost)
	require.NoError(t, r.Err())
	unlock(t, ctx, r)
	require.ErrorIs(t, r.Unlock(ctx), relock.ErrNotHeld)
	p.nothingLeft(t)
}

// Goroutines of one owner do not exclude each other, also when they ask at the same time.
func TestGoroutinesOfOneOwnerHaveARedlockTogether(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	ctx := p.sessions[0].NewContext(background)
	for range 20 {
		r := p.redlock("lock")
		var in atomic.Int64
		both := make(chan struct{})
		require.NoError(t, together(4, func(int) error {
			if err := r.Lock(ctx); err != nil {
				return err
			}
			if in.Add(1) == 4 {
				close(both)
			}
			receive(t, both, "all of them to be in")
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
	lock(t, background, r)
	unlock(t, background, r) // the scripts are known
	lock(t, background, r)
	var got []<-chan error
	for range 10 {
		got = append(got, async(func() error { return relock.Do(background, r, func(context.Context) error { return nil }) }))
	}
	redistest.Eventually(t, soon, "all to queue", func() bool { return peek.RedlockQueued(r) == 10 })
	cost := trafficOf(p.servers[0], func() {
		unlock(t, background, r)
		for _, c := range got {
			require.NoError(t, receive(t, c, "its turn"))
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
		require.NoError(t, together(4, func(i int) error {
			for range 5 {
				l := []*relock.Redlock{r, bounded}[i%2]
				if err := relock.Do(background, l, func(context.Context) error { n++; return nil }); err != nil {
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
	require.NoError(t, together(processes, func(int) error {
		r := relock.NewRedlock(p.more(t), "lock")
		ctx, cancel := context.WithTimeout(background, time.Minute)
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
		require.NoError(t, c.Do(background, c.B().Set().Key("lock").Value("not a lock").Build()).Error(), i)
	}
	r := p.redlock("lock")
	err := r.Lock(background) // an error that stays ends it at once
	require.ErrorContains(t, err, "WRONGTYPE")
	require.ErrorContains(t, err, "deployment 1 of 3")
	require.ErrorContains(t, err, "deployment 2 of 3")
	require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
	_, err = r.TryLock(background)
	require.ErrorContains(t, err, "WRONGTYPE")
	redistest.Eventually(t, quickly, "the third to be free", func() bool { return !exists(t, p.clients[2], "lock") })

	require.NoError(t, p.clients[0].Do(background, p.clients[0].B().Del().Key("lock").Build()).Error())
	lock(t, background, r) // two of three are a majority
	unlock(t, background, r)
}
