package locks_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What a process that stood still past the deadline of its hold may do before its
// watchdog has looked at the clock.

const standstill = time.Minute // longer than any lease here

// lossTally counts losses.
type lossTally struct {
	relock.NopObserver
	n atomic.Int64
}

func (c *lossTally) Lost(relock.LostEvent) { c.n.Add(1) }

// lateKind is a type of lock of some sessions, each on a server of its own.
type lateKind struct {
	of     func(ss []*relock.Session) relock.Locker
	places int // deployments
	losses int // events of the loss of one, with those of members
}

var lateKinds = map[string]lateKind{
	"Mutex":     {func(ss []*relock.Session) relock.Locker { return ss[0].Mutex("lock") }, 1, 1},
	"FairMutex": {func(ss []*relock.Session) relock.Locker { return ss[0].FairMutex("lock") }, 1, 1},
	"writer":    {func(ss []*relock.Session) relock.Locker { return ss[0].RWMutex("lock") }, 1, 1},
	"reader":    {func(ss []*relock.Session) relock.Locker { return ss[0].RWMutex("lock").RLocker() }, 1, 1},
	"reader WithFixedLease": {func(ss []*relock.Session) relock.Locker {
		return ss[0].RWMutex("lock", relock.WithFixedLease(standstill)).RLocker()
	}, 1, 1},
	"Mutex WithFixedLease": {func(ss []*relock.Session) relock.Locker {
		return ss[0].Mutex("lock", relock.WithFixedLease(standstill))
	}, 1, 1},
	"Redlock": {func(ss []*relock.Session) relock.Locker { return relock.NewRedlock(ss, "lock") }, 3, 4},
	"Group": {func(ss []*relock.Session) relock.Locker {
		return relock.NewGroup(ss[0].Mutex("lock"), ss[0].Mutex("other"))
	}, 1, 3},
	"Group of any": {func(ss []*relock.Session) relock.Locker {
		return relock.NewGroup(ss[0].FairMutex("lock"), ss[0].RWMutex("other").RLocker())
	}, 1, 3},
}

func (k lateKind) sessions(t *testing.T, opts ...relock.SessionOption) (ss []*relock.Session) {
	for range k.places {
		ss = append(ss, kit.NewSession(t, redistest.Start(t), opts...))
	}
	return ss
}

func skip(ss []*relock.Session) {
	for _, s := range ss {
		peek.Skip(s, standstill)
	}
}

// Regression: Lock by the owner returned nil, for a hold that another process may have
// had since. It is lost, and its loss told, by whoever looks at it first.
func TestNoLockIsEnteredAgainAfterItsDeadline(t *testing.T) {
	t.Parallel()
	for name, kind := range lateKinds {
		for try, enter := range map[string]func(context.Context, relock.Locker) (bool, error){
			"Lock":    func(ctx context.Context, l relock.Locker) (bool, error) { return true, l.Lock(ctx) },
			"TryLock": func(ctx context.Context, l relock.Locker) (bool, error) { return l.TryLock(ctx) },
			"Do": func(ctx context.Context, l relock.Locker) (bool, error) {
				return false, relock.Do(ctx, l, context.Cause)
			},
		} {
			t.Run(name+" "+try, func(t *testing.T) {
				t.Parallel()
				losses := new(lossTally)
				ss := kind.sessions(t, relock.WithObserver(losses))
				plain := kind.sessions(t) // no observer: the fast paths
				for _, ss := range [][]*relock.Session{ss, plain} {
					l := kind.of(ss)
					ctx, cancel := context.WithTimeout(ss[0].NewContext(kit.Background), kit.Soon)
					kit.Lock(t, ctx, l)
					kit.Lock(t, ctx, l)
					done := l.Done()
					skip(ss)
					for range 2 {
						_, err := enter(ctx, l)
						require.True(t, kit.IsClosed(done), "the loss is told")
						require.ErrorIs(t, err, relock.ErrLost, "until it is unlocked as often as locked")
						require.ErrorIs(t, l.Unlock(ctx), relock.ErrLost)
					}
					cancel()
				}
				require.EqualValues(t, kind.losses, losses.n.Load())
			})
		}
	}
}

// waitHook is a context that calls f when a call first waits under it.
type waitHook struct {
	context.Context
	f    func()
	once sync.Once
}

func (c *waitHook) Done() <-chan struct{} {
	c.once.Do(c.f)
	return c.Context.Done()
}

// A call that waits is handed the lock, and goes on only when the hold has run out.
func TestNoLockIsHandedOverAfterItsDeadline(t *testing.T) {
	t.Parallel()
	for name, kind := range lateKinds {
		switch name {
		case "FairMutex", "reader", "reader WithFixedLease", "Mutex WithFixedLease", "Group of any":
			continue // not handed over
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			losses := new(lossTally)
			ss := kind.sessions(t, relock.WithTenure(time.Hour), relock.WithObserver(losses))
			holder, next := kind.of(ss), kind.of(ss)
			kit.Warm(t, holder)
			kit.Lock(t, kit.Background, holder)
			holders := func() []relock.Holder {
				state, err := ss[0].Inspect(kit.Background, "lock")
				require.NoError(t, err)
				return state.Holders
			}
			held, handed := holders(), false
			ctx := &waitHook{Context: kit.Background, f: func() {
				handed = true
				kit.Unlock(t, kit.Background, holder)
				require.Equal(t, held, holders(), "not handed over")
				skip(ss)
			}}
			require.NoError(t, next.Lock(ctx))
			require.True(t, handed)
			require.NoError(t, next.Err(), "what it got in the end is not what ran out")
			parts := 0
			if name == "Redlock" {
				parts = kind.places
			}
			require.EqualValues(t, parts, losses.n.Load(), "nobody was told of what was handed over")
			kit.Unlock(t, kit.Background, next)
			require.ErrorIs(t, next.Unlock(kit.Background), relock.ErrNotHeld)
		})
	}
}

// And a reader that is let in with another one.
func TestNoReaderIsLetInAfterItsDeadline(t *testing.T) {
	t.Parallel()
	losses := new(lossTally)
	server := redistest.Start(t)
	s := kit.NewSession(t, server, relock.WithObserver(losses))
	writer := s.RWMutex("lock")
	one, two := s.RWMutex("lock").RLocker(), s.RWMutex("lock").RLocker()
	kit.Lock(t, kit.Background, writer)
	got := kit.Async(func() error { return one.Lock(kit.Background) })
	client := kit.NewClient(t, server)
	redistest.Eventually(t, kit.Soon, "the reader to wait", func() bool { return kit.Exists(t, client, "relock_rwqueue:{lock}") })
	ctx := &waitHook{Context: kit.Background, f: func() {
		kit.Unlock(t, kit.Background, writer)
		require.NoError(t, kit.Receive(t, got, "the first reader"))
		peek.Skip(s, standstill)
	}}
	require.NoError(t, two.Lock(ctx))
	require.NoError(t, two.Err())
	require.EqualValues(t, 1, losses.n.Load(), "of the first, for nobody was told of the second")
	require.ErrorIs(t, one.Unlock(kit.Background), relock.ErrLost)
	kit.Unlock(t, kit.Background, two)
	require.ErrorIs(t, two.Unlock(kit.Background), relock.ErrNotHeld)
	mustBeQuiet(t, client, "lock", s)
}
