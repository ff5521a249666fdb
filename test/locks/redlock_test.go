package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// fully takes a Redlock, again and again until it is held on every server.
func (p *site) fully(t testing.TB, ctx context.Context, r *relock.Redlock) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, "the lock to be held on every server", func() bool {
		kit.Lock(t, ctx, r)
		time.Sleep(50 * time.Millisecond) // for the grants of the others, and for what an earlier attempt gives back
		if p.holders(t, r.Name()) == len(p.servers) {
			return true
		}
		kit.Unlock(t, ctx, r)
		redistest.Eventually(t, kit.Soon, "the rest to be released", func() bool { return p.holders(t, r.Name()) == 0 })
		return false
	})
}

func TestRedlocksThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m, _ := redistest.Mini(t)
	s, same, mini := kit.NewSession(t, server), kit.NewSession(t, server), kit.NewClient(t, m)
	one, two := kit.SessionOn(t, mini), kit.SessionOn(t, mini)
	for what, sessions := range map[string][]*relock.Session{
		"no session":        nil,
		"a nil session":     {s, nil},
		"one session twice": {s, s},
		"one server twice":  {s, same},
		"one client twice":  {one, two}, // miniredis has no run id
	} {
		for method, err := range callAll(t, relock.NewRedlock(sessions, "a")) {
			if method == "Err" {
				require.ErrorIs(t, err, relock.ErrNotHeld, what)
			} else {
				require.ErrorIs(t, err, relock.ErrOption, "%s: %s", what, method)
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
	p.fully(t, ctx, r)
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
	nothingLeft(t, p.clients...)
}

func TestCancelledRedlockHoldsNothing(t *testing.T) {
	for what, taken := range map[string][]int{ // by others
		"free":                   nil,
		"a minority is taken":    {1, 3},
		"a majority is taken":    {0, 2, 4}, // each round gets two, and gives them back
		"taken by another value": {},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newSite(t, 5)
			r, holder := relock.NewRedlock(p.sessions, "lock"), relock.NewRedlock(p.sessions, "lock")
			p.fully(t, kit.Background, r) // the scripts are known
			kit.Unlock(t, kit.Background, r)
			for _, i := range taken {
				kit.Lock(t, kit.Background, kit.NewSession(t, p.servers[i]).Mutex("lock"))
			}
			left := len(taken)
			if taken != nil && left == 0 {
				p.fully(t, kit.Background, holder)
				left = 5
			}
			p.cancels(t, r, left, left < 3)
		})
	}
}

// A caller may cancel its context as soon as Lock has returned. What a slower deployment grants then belongs to the
// hold all the same: it was given up, so the next loss of another part lost the lock.
func TestLateGrantBelongsToAHeldRedlock(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	r := relock.NewRedlock(p.sessions, "lock")
	p.fully(t, kit.Background, r)
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

// handoffs tells of each acquisition whether it was handed over within the process.
type handoffs struct {
	relock.NopObserver
	c chan bool
}

func (h handoffs) Acquired(_ context.Context, e relock.AcquireEvent) { h.c <- e.Local }

// The goroutines of a process pass it on while the tenure lasts.
func TestRedlockIsPassedOnForItsTenure(t *testing.T) {
	t.Parallel()
	for tenure, passed := range map[time.Duration]bool{time.Minute: true, 0: false} {
		heard := handoffs{c: make(chan bool, 100)}
		p := newSite(t, 3, relock.WithTenure(tenure), relock.WithObserver(heard))
		r := relock.NewRedlock(p.sessions, "lock")
		p.fully(t, kit.Background, r) // the first token of a name comes alone
		kit.Unlock(t, kit.Background, r)
		nothingLeft(t, p.clients...)
		time.Sleep(10 * time.Millisecond)
		for len(heard.c) > 0 {
			<-heard.c
		}
		kit.Lock(t, kit.Background, r)
		require.False(t, kit.Receive(t, heard.c, "the first acquisition"))
		got := kit.Async(func() error { return r.Lock(kit.Background) })
		redistest.Eventually(t, kit.Soon, "the second to queue", func() bool { return peek.Redlock(r).Queued() == 1 })
		kit.Unlock(t, kit.Background, r)
		require.NoError(t, kit.Receive(t, got, "its turn"))
		require.Equal(t, passed, kit.Receive(t, heard.c, "the second acquisition"), tenure)
		kit.Unlock(t, kit.Background, r)
	}
}
