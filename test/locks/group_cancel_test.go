package locks_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// tap sees the acquisitions that a session sends, before the server does.
type tap struct{ on atomic.Pointer[func()] }

func newTap(proxy *redistest.Proxy) *tap {
	p := new(tap)
	proxy.DropReplies(func(request []byte) bool {
		if f := p.on.Load(); f != nil && bytes.Contains(request, []byte("relock_fence")) &&
			!bytes.Contains(request, []byte("redisson_lock__channel")) { // a release
			(*f)()
		}
		return false // no reply is to be dropped
	})
	return p
}

// at has f called when the nth acquisition from now on is on its way.
func (p *tap) at(n int, f func()) {
	var seen atomic.Int64
	hook := func() {
		if seen.Add(1) == int64(n) {
			f()
		}
	}
	p.on.Store(&hook)
}

// places are two servers behind one tap, with a session on each.
type places struct {
	tap       *tap
	s, far    *relock.Session
	clients   []rueidis.Client
	strangers []*relock.Session // not behind it
}

func newPlaces(t *testing.T) *places {
	p := new(places)
	var sessions []*relock.Session
	for range 2 {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		if p.tap == nil {
			p.tap = newTap(proxy)
		} else {
			other := newTap(proxy)
			forward := func() {
				if f := p.tap.on.Load(); f != nil {
					(*f)()
				}
			}
			other.on.Store(&forward)
		}
		sessions = append(sessions, kit.NewSession(t, proxy))
		p.clients = append(p.clients, kit.NewClient(t, server))
		p.strangers = append(p.strangers, kit.NewSession(t, server))
	}
	p.s, p.far = sessions[0], sessions[1]
	return p
}

func (p *places) nothingLeft(t testing.TB, but int) {
	t.Helper()
	redistest.Eventually(t, kit.Quickly, "nothing to be left", func() bool {
		n := 0
		for _, c := range p.clients {
			n += len(kit.Keys(t, c))
		}
		return n == but
	})
}

// cancelledGroups are what is locked until a call is cancelled: the last member is d on
// the first server.
var cancelledGroups = map[string]func(p *places) relock.Locker{
	"mutexes": func(p *places) relock.Locker {
		return relock.NewGroup(p.s.Mutex("d"), p.s.Mutex("a"), p.s.Mutex("b"), p.s.Mutex("c"))
	},
	"all types": func(p *places) relock.Locker {
		return relock.NewGroup(p.far.Mutex("a"), p.s.RWMutex("b"), p.far.RWMutex("b").RLocker(), p.s.FairMutex("c"), p.s.Mutex("d"))
	},
	"groups in a group": func(p *places) relock.Locker {
		return relock.NewGroup(relock.NewGroup(p.s.Mutex("a"), p.far.Mutex("a")), relock.NewGroup(p.s.FairMutex("b"), stranger{p.far.Mutex("c")}), p.s.Mutex("d"))
	},
	"Redlocks": func(p *places) relock.Locker {
		both := []*relock.Session{p.s, p.far}
		return relock.NewGroup(relock.NewRedlock(both, "a"), p.s.Mutex("b"), relock.NewRedlock(both, "d"))
	},
}

// The call is cancelled while its first script is on its way, its second, and so on; the
// script is executed all the same.
func TestAGroupThatIsCancelledHoldsNothingWhereverItIs(t *testing.T) {
	for kind, make := range cancelledGroups {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlaces(t)
			g := make(p)
			kit.Lock(t, kit.Background, g) // every script is known
			kit.Unlock(t, kit.Background, g)
			for wait, call := range map[bool]func(ctx context.Context) error{
				true: g.Lock,
				false: func(ctx context.Context) error {
					for {
						ok, err := g.TryLock(ctx)
						switch {
						case ok || err != nil:
							return err
						case ctx.Err() != nil:
							return context.Cause(ctx)
						}
						time.Sleep(time.Millisecond) // it is busy giving back
					}
				},
			} {
				p.nothingLeft(t, 0)
				for n, over := 1, false; !over; n++ {
					ctx, cancel := context.WithCancelCause(kit.Background)
					p.tap.at(n, func() { cancel(kit.ErrStop) })
					err := call(ctx)
					p.tap.on.Store(nil)
					if err == nil {
						over = ctx.Err() == nil // it has taken fewer
						require.NoError(t, g.Err())
						kit.Unlock(t, kit.Background, g)
					} else {
						require.ErrorIs(t, err, kit.ErrStop, "%v, at script %d", wait, n)
						require.ErrorIs(t, g.Err(), relock.ErrNotHeld)
					}
					p.nothingLeft(t, 0)
					cancel(nil)
					require.Less(t, n, 20)
				}
				kit.Lock(t, kit.Background, g)
				kit.Unlock(t, kit.Background, g)
			}
		})
	}
}

// The last member is taken; the call is cancelled in each of its attempts, and while it
// sleeps.
func TestAGroupThatIsCancelledWhileItWaitsHoldsNothing(t *testing.T) {
	for kind, make := range cancelledGroups {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlaces(t)
			g := make(p)
			kit.Lock(t, kit.Background, g)
			kit.Unlock(t, kit.Background, g)
			taken := p.strangers[0].Mutex("d")
			kit.Lock(t, kit.Background, taken)
			for n := 1; n <= 12; n++ {
				ctx, cancel := context.WithCancelCause(kit.Background)
				p.tap.at(n, func() { cancel(kit.ErrStop) })
				later := time.AfterFunc(100*time.Millisecond, func() { cancel(kit.ErrStop) })
				err := g.Lock(ctx)
				p.tap.on.Store(nil)
				later.Stop()
				if err == nil { // a Redlock of two has been had all but d
					t.Fatal("the group was had")
				}
				require.ErrorIs(t, err, kit.ErrStop)
				p.nothingLeft(t, 1)
			}
			kit.Unlock(t, kit.Background, taken)
			kit.Lock(t, kit.Background, g)
			kit.Unlock(t, kit.Background, g)
			p.nothingLeft(t, 0)
		})
	}
}

// Many calls in two processes, cancelled at any time: those that get the group exclude
// each other, and in the end nothing is left.
func TestGroupsThatAreCancelledAtRandom(t *testing.T) {
	for kind, make := range cancelledGroups {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlaces(t)
			other := &places{s: p.strangers[0], far: p.strangers[1]}
			span := kit.Stress(t, 500*time.Millisecond)
			cancelledAtRandom(t, span, 15*time.Millisecond, func(i int) relock.Locker { return make([]*places{p, other}[i%2]) })
			p.nothingLeft(t, 0)
			g := make(p)
			kit.Lock(t, kit.Background, g)
			kit.Unlock(t, kit.Background, g)
		})
	}
}

// cancelledAtRandom has six goroutines lock for a span under contexts that end at random
// times, and unlock under those. None of them may be inside beside another.
func cancelledAtRandom(t testing.TB, span, most time.Duration, lockOf func(i int) relock.Locker) {
	t.Helper()
	end := time.Now().Add(span)
	var inside, got, left atomic.Int64
	require.NoError(t, kit.Together(6, func(i int) error {
		l := lockOf(i)
		for time.Now().Before(end) || got.Load() == 0 || left.Load() == 0 {
			ctx, cancel := kit.ContextFor(rand.N(most))
			err := l.Lock(ctx)
			cancel()
			if err != nil {
				left.Add(1)
				continue
			}
			got.Add(1)
			if n := inside.Add(1); n != 1 {
				return fmt.Errorf("%d at the same time", n)
			}
			inside.Add(-1)
			if err := l.Unlock(ctx); err != nil { // ctx has ended
				return err
			}
		}
		return nil
	}))
	t.Logf("%d times had, %d times cancelled", got.Load(), left.Load())
}
