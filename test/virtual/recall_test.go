package virtual_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/internal/peek"
)

// A loss stops no Lock, also if the lock is kept since; of an owner it does until it has unlocked.
func TestKeptLockAfterALoss(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.keptBy()
		for _, ctx := range []context.Context{background, p.s[0].NewContext(background)} {
			require.NoError(t, l.Lock(ctx))
			w.redis[0].Lose("a")
			lost(t, l)
			for range 2 {
				pair(t, p.s[0].Mutex("a", keeps)) // through another handle
				time.Sleep(10 * time.Millisecond)
			}
			require.False(t, w.free())
			if ctx != background {
				require.ErrorIs(t, l.Lock(ctx), relock.ErrLost)
				require.ErrorIs(t, l.Unlock(ctx), relock.ErrLost)
			}
			require.Zero(t, took(func() { require.NoError(t, l.Lock(ctx)) }))
			if ctx == background {
				require.ErrorIs(t, l.Unlock(ctx), relock.ErrLost)
				require.NoError(t, l.Err())
			}
			require.NoError(t, l.Unlock(ctx))
			require.ErrorIs(t, l.Unlock(ctx), relock.ErrNotHeld)
			require.False(t, w.free(), "it is kept again")
		}
	})
}

// What was recalled is not counted among what is kept.
func TestRecalledLocksMakeRoom(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		peek.Session(p.s[0]).Keeper.Most = 3
		pair(t, p.s[0].Mutex("a", keeps))
		for _, name := range []string{"b", "c", "d", "e"} {
			time.Sleep(time.Second)
			pair(t, p.s[0].Mutex(name, keeps))
			pair(t, other.s[0].Mutex(name))
			require.False(t, w.has(name))
		}
		require.True(t, w.has("a"), "it gave way to what is not kept any more")
	})
}

// Handles with WithKeep and without share a lease: whether that is kept is known from who acquired it. After another
// process has had the lock it is not.
func TestRecalledLockOfAnotherHandleIsNotKept(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for i := range 3 {
			time.Sleep(10 * time.Millisecond) // it has the tokens to be passed on
			plain, l := p.s[0].Mutex("a"), p.s[0].Mutex("a", keeps)
			require.NoError(t, plain.Lock(background))
			first := plain.FencingToken()
			passed := begin(background, l)
			synctest.Wait()
			require.NoError(t, plain.Unlock(background))
			require.NoError(t, <-passed)
			require.Equal(t, first+1, l.FencingToken())
			require.NoError(t, l.Unlock(background))
			require.Equal(t, i > 0, w.free())
			pair(t, other.s[0].Mutex("a"))
		}
	})
}

// A Lock that must have a kept lease released first ends with its context.
func TestLockThatReleasesAKeptLockEndsWithItsContext(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		p.keptBy()
		m := p.s[0].Mutex("a", relock.WithLease(time.Minute))
		heal := p.partition()
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		require.Equal(t, 100*time.Millisecond, took(func() {
			require.ErrorIs(t, m.Lock(ctx), context.DeadlineExceeded)
		}))
		heal()
		time.Sleep(lease)
		require.True(t, w.free())
		pair(t, m)
		pair(t, p.s[0].Mutex("a", keeps))
	})
}

// A TryLock with WithKeep waits 250 ms, and so the holder hears that the lock is wanted. Without,
// it makes one attempt.
func TestTryLockWithKeepIsWantedAndOthersAreNot(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		h, err := p.keptBy().Acquire(background)
		require.NoError(t, err)
		for _, c := range []struct {
			o    []relock.LockOption
			most time.Duration
		}{{nil, 0}, {[]relock.LockOption{keeps}, 250 * time.Millisecond}} {
			require.Equal(t, c.most, took(func() {
				ok, err := other.s[0].Mutex("a", c.o...).TryLock(background)
				require.NoError(t, err)
				require.False(t, ok)
			}))
			require.Equal(t, c.most > 0, isClosed(h.Wanted()))
		}
		time.Sleep(time.Second)
		state, err := p.s[0].Inspect(background, "a")
		require.NoError(t, err)
		require.Zero(t, state.Waiters)
		require.NoError(t, h.Unlock(background))
		require.True(t, w.free(), "it was wanted")
	})
}

// A TryLock that nobody answers leaves nothing in the queue.
func TestTryLockOfASilentKeeperLeavesNothing(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		p.keptBy()
		heal := p.partition()
		by := other.s[0].Mutex("a", keeps)
		require.Equal(t, 250*time.Millisecond, took(func() {
			ok, err := by.TryLock(background)
			require.NoError(t, err)
			require.False(t, ok)
		}))
		time.Sleep(time.Second)
		state, err := other.s[0].Inspect(background, "a")
		require.NoError(t, err)
		require.Zero(t, state.Waiters)
		heal()
	})
}

func TestLostRecallOnlyDelays(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		p.keptBy()
		time.Sleep(time.Second)
		memredis.Of(w.redis[0], p.s[0]).LoseMessage("wanted ")
		d := took(func() { require.NoError(t, other.s[0].Mutex("a").Lock(background)) })
		require.Greater(t, d, time.Second)
		require.Less(t, d, 2*time.Second)
	})
}

// A process that cannot hear a recall, or is frozen, costs what it costs as a holder.
func TestKeeperThatIsAwayCostsALeaseAtMost(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.keptBy()
		heal := p.partition()
		require.LessOrEqual(t, took(func() {
			require.NoError(t, other.s[0].Mutex("a").Lock(background))
		}), lease+10*time.Millisecond)
		heal()
		require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
	})
}

func TestKeeperWithoutSubscriptionKeepsNothing(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		p.keptBy()
		p.s[0].Mutex("b", keeps)
		require.NoError(t, p.s[0].Mutex("b", keeps).Lock(background))
		w.redis[0].Disconnect(p.s[0])
		require.Less(t, took(func() {
			require.NoError(t, other.s[0].Mutex("a").Lock(background))
		}), 3*time.Second)
	})
}

// A process whose subscription Redis refuses, though its commands work, keeps nothing.
func TestKeeperWithoutSubscriptionIsNotWaitedFor(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.keptBy()
		memredis.Of(w.redis[0], p.s[0]).Server().OnCommand(func(verb string, args []string) string {
			if verb == "SUBSCRIBE" && strings.Contains(strings.Join(args, " "), p.s[0].ID()) {
				return "ERR max number of clients reached"
			}
			return ""
		})
		p.networks((*memredis.Process).Break)
		m := other.s[0].Mutex("a")
		require.Less(t, took(func() { require.NoError(t, m.Lock(background)) }), 3*time.Second)
		require.NoError(t, m.Unlock(background))
		time.Sleep(2 * time.Second)
		for range 3 { // from the second time on it would be kept
			pair(t, l)
			time.Sleep(time.Millisecond)
			require.True(t, w.free())
		}
	})
}

// Locks of other kinds recall a Mutex that is kept, in this process and in others.
func TestKeptLockIsRecalledByOtherKinds(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for _, by := range []*process{p, other} {
			s := by.s[0]
			for i, m := range []relock.Locker{
				s.FairMutex("a"), s.RWMutex("a"), s.RWMutex("a").RLocker(), relock.NewGroup(s.FairMutex("a"), s.RWMutex("b")),
			} {
				time.Sleep(5 * time.Minute)
				p.keptBy()
				require.Less(t, took(func() { require.NoError(t, m.Lock(background)) }), 2*time.Second, i)
				require.NoError(t, m.Unlock(background))
			}
		}
	})
}

// Without hand-offs in the process kept locks exclude as well.
func TestKeptLockWithoutTenureExcludes(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(relock.WithTenure(0)), w.process(relock.WithTenure(0))
		l := p.keptBy()
		var held, n int
		var all []<-chan error
		for i := range 40 {
			m := []*process{p, other}[min(i%7, 1)].s[0].Mutex("a", keeps)
			all = append(all, kit.Async(func() error {
				return relock.Do(background, m, func(context.Context) error {
					held++
					n++
					require.Equal(t, 1, held)
					time.Sleep(time.Millisecond)
					held--
					return nil
				})
			}))
		}
		for _, one := range all {
			require.NoError(t, <-one)
		}
		require.Equal(t, 40, n)
		pair(t, l)
	})
}

// A hold that is wanted is released by its Unlock, however long it lasts.
func TestRecalledLockIsNotKeptAfterALongHold(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.keptBy()
		h, err := l.Acquire(background)
		require.NoError(t, err)
		waits := lockAndUnlock(other.s[0].Mutex("a"))
		<-h.Wanted()
		time.Sleep(1100 * time.Millisecond) // who waits has not polled yet
		require.Zero(t, took(func() {
			require.NoError(t, h.Unlock(background))
			require.NoError(t, <-waits)
		}))
	})
}

// After a recall the next Unlock releases the lock, as ever, whenever that is; the second one keeps it again.
func TestRecalledLockIsNotKeptAtOnce(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for _, later := range []time.Duration{0, 900 * time.Millisecond, lease} { // however often
			l, by := p.keptBy(), other.s[0].Mutex("a", keeps)
			pair(t, by)
			require.True(t, w.free(), "the process that has recalled it does not keep it either")
			time.Sleep(later)
			pair(t, l)
			require.True(t, w.free())
			pair(t, l)
			require.False(t, w.free())
		}
		h, err := p.keptBy().Acquire(background) // in use
		require.NoError(t, err)
		waits := lockAndUnlock(other.s[0].Mutex("a", keeps))
		<-h.Wanted()
		time.Sleep(1100 * time.Millisecond)
		require.NoError(t, h.Unlock(background))
		require.NoError(t, <-waits)
		require.True(t, w.free())
	})
}
