package locks_test

import (
	"context"
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

// fully takes a Redlock, again and again until it is held on every server.
func (p *site) fully(t testing.TB, r *relock.Redlock) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, "the lock to be held on every server", func() bool {
		kit.Lock(t, kit.Background, r)
		time.Sleep(50 * time.Millisecond) // for the grants of the others, and for what an earlier attempt gives back
		if p.holders(t, r.Name()) == len(p.servers) {
			return true
		}
		kit.Unlock(t, kit.Background, r)
		redistest.Eventually(t, kit.Soon, "the rest to be released", func() bool { return p.holders(t, r.Name()) == 0 })
		return false
	})
}

func TestRedlockIsHeldOnEveryServerAndExcludes(t *testing.T) {
	t.Parallel()
	p := newSite(t, 4)
	for n := 1; n <= 4; n++ { // two and four servers are no better than one and three, and allowed
		r, waits := relock.NewRedlock(p.sessions[:n], "lock"), newWaits()
		other := relock.NewRedlock(p.more(t, relock.WithObserver(waits))[:n], "lock")
		require.Equal(t, "lock", r.Name())
		kit.Lock(t, kit.Background, r)
		require.NoError(t, r.Err())
		redistest.Eventually(t, kit.Quickly, "all to grant it", func() bool { return p.holders(t, "lock") == n })
		deadline, ok := r.Deadline()
		require.True(t, ok)
		require.WithinDuration(t, time.Now().Add(30*time.Second), deadline, 5*time.Second)

		require.False(t, kit.TryLock(t, kit.Background, other))
		got := kit.Async(func() error { return other.Lock(kit.Background) })
		kit.Receive(t, waits.c, "the other to wait")
		require.Empty(t, got)
		done := r.Done()
		require.False(t, kit.IsClosed(done))
		kit.Unlock(t, kit.Background, r)
		require.True(t, kit.IsClosed(done))
		require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
		_, ok = r.Deadline()
		require.False(t, ok)
		require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
		require.NoError(t, kit.Receive(t, got, "the other to get it")) // after a pause: it hears no message
		kit.Unlock(t, kit.Background, other)
		nothingLeft(t, p.clients...)
	}
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

func TestRedlockIsReentrantForItsOwner(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	s := p.sessions[0]
	ctx := s.NewContext(kit.Background)
	r := relock.NewRedlock(p.sessions, "lock")
	same := relock.NewRedlock([]*relock.Session{p.sessions[2], p.sessions[1], s}, "lock")
	p.fully(t, r)
	kit.Unlock(t, kit.Background, r)
	nothingLeft(t, p.clients...)
	kit.Lock(t, ctx, r)
	redistest.Eventually(t, kit.Quickly, "all to grant it", func() bool { return p.holders(t, "lock") == 3 })
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
	for range 20 { // goroutines of one owner do not exclude each other, also when they ask at the same time
		var in atomic.Int64
		all := make(chan struct{})
		require.NoError(t, kit.Together(4, func(int) error {
			if err := r.Lock(ctx); err != nil {
				return err
			}
			if in.Add(1) == 4 {
				close(all)
			}
			kit.Receive(t, all, "all of them to be in")
			return r.Unlock(ctx)
		}))
	}
	nothingLeft(t, p.clients...)
}

// The goroutines of a process queue for it in the process, and pass it on while the
// tenure lasts.
func TestRedlockIsPassedOnWithinAProcess(t *testing.T) {
	t.Parallel()
	const n = 10
	for _, c := range []struct {
		tenure   time.Duration
		o        []relock.LockOption
		acquired int64
	}{
		{time.Minute, nil, 1}, {0, nil, n + 1}, {time.Minute, []relock.LockOption{relock.WithMaxHold(time.Minute)}, n + 1},
	} {
		p := newSite(t, 3, relock.WithTenure(c.tenure))
		r := relock.NewRedlock(p.sessions, "lock", c.o...)
		p.fully(t, r)
		kit.Unlock(t, kit.Background, r)
		nothingLeft(t, p.clients...)
		var acquired int64 // on all servers: each time on a majority at least
		for _, server := range p.servers {
			acquired -= server.CommandStats()["hset"]
		}
		kit.Lock(t, kit.Background, r)
		var got []<-chan error
		for range n {
			got = append(got, kit.Async(func() error {
				return relock.Do(kit.Background, r, func(context.Context) error { return nil })
			}))
		}
		redistest.Eventually(t, kit.Soon, "all to queue", func() bool { return peek.Redlock(r).Queued() == n })
		kit.Unlock(t, kit.Background, r)
		for _, c := range got {
			require.NoError(t, kit.Receive(t, c, "its turn"))
		}
		for _, server := range p.servers {
			acquired += server.CommandStats()["hset"]
		}
		require.GreaterOrEqual(t, acquired, 2*c.acquired)
		require.LessOrEqual(t, acquired, 3*c.acquired)
		nothingLeft(t, p.clients...)
	}
}

func TestErrorsOfARedlockNameTheDeployment(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	for _, c := range p.clients[:2] {
		order(t, c, "SET", "lock", "not a lock")
	}
	r := relock.NewRedlock(p.sessions, "lock")
	err := r.Lock(kit.Background) // an error that stays ends it at once
	require.ErrorContains(t, err, "WRONGTYPE")
	require.ErrorContains(t, err, "deployment 1 of 3")
	require.ErrorContains(t, err, "deployment 2 of 3")
	require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
	_, err = r.TryLock(kit.Background)
	require.ErrorContains(t, err, "WRONGTYPE")
	redistest.Eventually(t, kit.Quickly, "the third to be free", func() bool { return !kit.Exists(t, p.clients[2], "lock") })
	order(t, p.clients[0], "DEL", "lock")
	kit.Lock(t, kit.Background, r) // two of three are a majority
}

// The call is cancelled while its script is on the way to the first server, the second,
// and so on, in the rounds after that, and while it sleeps between them. The scripts are
// executed all the same, and what they get is given back.
func TestCancelledRedlockHoldsNothing(t *testing.T) {
	for what, taken := range map[string][]int{ // by others
		"free":                   nil,
		"a minority is taken":    {1, 3},
		"a majority is taken":    {0, 2, 4}, // each round gets two, and gives them back
		"everything is taken":    {0, 1, 2, 3, 4},
		"taken by another value": {},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newSite(t, 5)
			r, holder := relock.NewRedlock(p.sessions, "lock"), relock.NewRedlock(p.sessions, "lock")
			p.fully(t, r) // the scripts are known
			kit.Unlock(t, kit.Background, r)
			for _, i := range taken {
				kit.Lock(t, kit.Background, kit.NewSession(t, p.servers[i]).Mutex("lock"))
			}
			left := len(taken)
			if taken != nil && left == 0 {
				p.fully(t, holder)
				left = 5
			}
			tap := newTap(p.proxies...)
			for _, wait := range []bool{true, false} {
				for n := 1; n <= 12; n++ {
					keysLeft(t, left, p.clients...)
					ctx, cancel := context.WithCancelCause(kit.Background)
					tap.at(n, func() { cancel(kit.ErrStop) })
					late := time.AfterFunc(50*time.Millisecond, func() { cancel(kit.ErrStop) })
					ok, err := true, error(nil)
					if wait {
						err = r.Lock(ctx)
					} else {
						ok, err = r.TryLock(ctx)
					}
					tap.on.Store(nil)
					late.Stop()
					switch {
					case err != nil:
						require.ErrorIs(t, err, kit.ErrStop, "at script %d", n)
						require.ErrorIs(t, err, context.Canceled, "at script %d", n)
						require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
						require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
					case ok:
						require.Less(t, left, 3)
						require.NoError(t, r.Err())
						kit.Unlock(t, kit.Background, r)
					default:
						require.False(t, wait)
					}
					cancel(nil)
				}
			}
			keysLeft(t, left, p.clients...)
		})
	}
}

// Unlock comes while a lost part is acquired again. That is given back: else it would be renewed for ever.
func TestUnlockDuringARepairLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3, relock.WithLease(10*time.Second)) // repairs begin after a twentieth of that
	tap := newTap(p.proxies[1])
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		r := relock.NewRedlock(p.sessions, name)
		p.fully(t, r)
		unlocked := make(chan error, 1)
		tap.at(1, func() {
			go func() { unlocked <- r.Unlock(kit.Background) }()
			time.Sleep(20 * time.Millisecond) // Unlock ends the repairs first
		})
		_, err := p.sessions[1].ForceUnlock(kit.Background, name)
		require.NoError(t, err)
		require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
		tap.on.Store(nil)
	}
	time.Sleep(100 * time.Millisecond) // what is on its way
	nothingLeft(t, p.clients...)
}

// A caller may cancel its context as soon as Lock has returned. What a slower deployment grants then belongs to the
// hold all the same: it was given up, so the next loss of another part lost the lock.
func TestLateGrantBelongsToAHeldRedlock(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	r := relock.NewRedlock(p.sessions, "lock")
	p.fully(t, r)
	kit.Unlock(t, kit.Background, r)
	nothingLeft(t, p.clients...)
	acquired := func() int64 { return p.servers[2].CommandStats()["hset"] }
	before := acquired()
	p.proxies[2].Delay(50 * time.Millisecond)
	ctx, cancel := context.WithCancel(kit.Background)
	require.NoError(t, r.Lock(ctx))
	cancel()
	redistest.Eventually(t, kit.Quickly, "the third to grant it", func() bool { return p.holders(t, "lock") == 3 })
	time.Sleep(200 * time.Millisecond) // its reply, and what would be released
	require.Equal(t, 3, p.holders(t, "lock"))
	require.Equal(t, before+1, acquired(), "it is no repair")
	kit.Unlock(t, kit.Background, r)
}
