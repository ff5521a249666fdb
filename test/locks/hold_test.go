package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// hasEnded checks what a hold tells that has ended, by its own Unlock or Handoff.
func hasEnded(t testing.TB, h *relock.Hold, token int64) {
	t.Helper()
	require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
	require.NotErrorIs(t, h.Err(), relock.ErrLost)
	require.True(t, kit.IsClosed(h.Done()))
	require.Equal(t, token, h.Token())
	_, ok := h.Deadline()
	require.False(t, ok)
	require.ErrorIs(t, h.Unlock(kit.Background), relock.ErrNotHeld)
	_, err := h.Handoff(kit.Background, time.Minute)
	require.ErrorIs(t, err, relock.ErrNotHeld)
	ctx, cancel := h.Context(kit.Background)
	defer cancel()
	require.ErrorIs(t, context.Cause(ctx), relock.ErrNotHeld)
}

// isHeld checks what a hold tells that is held.
func isHeld(t testing.TB, h *relock.Hold) {
	t.Helper()
	require.NoError(t, h.Err())
	require.False(t, kit.IsClosed(h.Done()))
}

// blocker returns a lock that a lock of the kind waits for.
func (k *kind) blocker(ss []*relock.Session, name string) relock.Locker {
	if k.reads {
		return ss[0].RWMutex(name)
	}
	return k.of(ss, name)
}

// What a hold tells of itself, while it is held, after its end, and after its loss.
func TestAcquireReturnsAHold(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		const lease = 30 * time.Second
		ss := k.sessions(t, relock.WithLease(lease))
		l := k.of(ss, "lock").(kit.Acquirer)
		group := strings.Contains(k.name, "Group")
		last := int64(0)
		for _, parent := range []context.Context{kit.Background, ss[0].NewContext(kit.Background)} {
			for what, acquire := range map[string]func(context.Context) (*relock.Hold, error){
				"Acquire": l.Acquire, "TryAcquire": l.TryAcquire,
			} {
				before := time.Now()
				h, err := acquire(parent)
				after := time.Now()
				require.NoError(t, err, what)
				isHeld(t, h)
				require.Equal(t, h.Done(), h.Done(), "the channel stays the same")
				require.True(t, strings.HasPrefix(h.Name(), "lock"), h.Name())
				require.Equal(t, k.fenced, h.Token() > last)
				last = max(last, h.Token())
				at, ok := h.Deadline()
				require.True(t, ok)
				require.True(t, at.After(before.Add(lease*9/10)), "%v", at.Sub(before))
				require.True(t, at.Before(after.Add(lease)), "%v", at.Sub(after))
				require.Equal(t, group, h.Members() != nil)
				require.Equal(t, k.reads || group || k.name == "Redlock", h.Wanted() == nil)
				require.Equal(t, k.name == "Semaphore", h.Slot() == 0, "%d", h.Slot())
				require.ErrorIs(t, l.Err(), relock.ErrNotHeld, "the handle knows nothing of it")
				require.ErrorIs(t, l.Unlock(parent), relock.ErrNotHeld)
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
				isHeld(t, h)
				require.NoError(t, h.Unlock(kit.Cancelled()), "the end of its context is no loss")
				hasEnded(t, h, h.Token())
				require.NoError(t, tryFor(t, parent, l), "when it is released, which nobody waited for")
			}
			h := kit.Acquire(t, parent, l)
			ctx, cancel := h.Context(kit.Background)
			defer cancel()
			for _, s := range ss {
				_, err := s.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
			}
			kit.Receive(t, h.Done(), "the loss")
			kit.Receive(t, ctx.Done(), "the end of its context")
			require.ErrorIs(t, context.Cause(ctx), relock.ErrLost)
			require.ErrorIs(t, h.Err(), relock.ErrLost)
			if parent != kit.Background {
				_, err := l.Acquire(parent)
				require.ErrorIs(t, err, relock.ErrLost, "an owner unlocks first")
				_, err = l.TryAcquire(parent)
				require.ErrorIs(t, err, relock.ErrLost)
				require.NotErrorIs(t, err, relock.ErrTaken)
			}
			require.ErrorIs(t, h.Unlock(kit.Background), relock.ErrLost)
			require.ErrorIs(t, h.Unlock(kit.Background), relock.ErrNotHeld, "the second time")
			require.ErrorIs(t, h.Err(), relock.ErrLost, "for good")
			require.NoError(t, tryFor(t, parent, l))
		}
	})
}

func TestAcquireOfWhatIsTaken(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		waits := newWaits()
		ss := k.sessions(t, relock.WithObserver(waits))
		l, taken := k.of(ss, "lock").(kit.Acquirer), k.blocker(ss, "lock")
		for _, parent := range []context.Context{kit.Background, ss[0].NewContext(kit.Background)} {
			held := kit.Acquire(t, kit.Background, taken)
			h, err := l.TryAcquire(parent)
			require.ErrorIs(t, err, relock.ErrTaken)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
			require.Nil(t, h)
			for _, patient := range []bool{false, true} {
				ctx, cancel := context.WithCancelCause(parent)
				got := make(chan *relock.Hold, 1)
				ended := kit.Async(func() error {
					h, err := l.Acquire(ctx)
					got <- h
					return err
				})
				kit.Receive(t, waits.c, "the call to wait")
				require.Empty(t, got)
				if patient {
					require.NoError(t, held.Unlock(kit.Background))
					require.NoError(t, kit.Receive(t, ended, "its turn"))
					require.NoError(t, (<-got).Unlock(kit.Background))
				}
				cancel(kit.ErrStop)
				if !patient {
					err := kit.Receive(t, ended, "the call to end")
					require.ErrorIs(t, err, kit.ErrStop)
					require.ErrorIs(t, err, relock.ErrTaken)
					require.Nil(t, <-got)
				}
			}
			for _, acquire := range []func(context.Context) (*relock.Hold, error){l.Acquire, l.TryAcquire} {
				h, err = acquire(kit.Cancelled())
				require.ErrorIs(t, err, context.Canceled)
				require.Nil(t, h)
			}
		}
		for _, s := range ss {
			require.NoError(t, s.Close(kit.Background))
		}
		for _, acquire := range []func(context.Context) (*relock.Hold, error){l.Acquire, l.TryAcquire} {
			h, err := acquire(kit.Background)
			require.ErrorIs(t, err, relock.ErrClosed)
			require.Nil(t, h)
		}
	})
}

// RAcquire and TryRAcquire are Acquire and TryAcquire of RLocker.
func TestReadersAcquire(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	rw := s.RWMutex("lock")
	var readers []*relock.Hold
	side := rw.RLocker().(kit.Acquirer)
	for _, acquire := range []func(context.Context) (*relock.Hold, error){
		rw.RAcquire, rw.TryRAcquire, side.Acquire, side.TryAcquire,
	} {
		h, err := acquire(kit.Background)
		require.NoError(t, err)
		readers = append(readers, h)
	}
	for _, h := range readers {
		_, err := rw.TryAcquire(kit.Background)
		require.ErrorIs(t, err, relock.ErrTaken)
		isHeld(t, h)
		require.Zero(t, h.Token())
		require.NoError(t, h.Unlock(kit.Background))
		hasEnded(t, h, 0)
	}
	writer := kit.Acquire(t, kit.Background, rw)
	for _, try := range []func(context.Context) (*relock.Hold, error){rw.TryRAcquire, side.TryAcquire} {
		_, err := try(kit.Background)
		require.ErrorIs(t, err, relock.ErrTaken)
	}
	require.NoError(t, writer.Unlock(kit.Background))
	require.NoError(t, tryFor(t, kit.Background, rw.RLocker()))
}

// Each hold of an owner ends itself, in whatever order, beside what the owner has locked; the lock is released with the
// last of them.
func TestHoldEndsOnlyItself(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			eachOf(t, func(t *testing.T, k *kind) {
				ss := k.sessions(t)
				owner, stranger := ss[0].NewContext(kit.Background), ss[0].NewContext(kit.Background)
				l, other := k.of(ss, "lock"), k.of(ss, "lock")
				holds := make([]*relock.Hold, 4)
				for i := range holds {
					if i%2 == 0 {
						holds[i] = kit.Acquire(t, owner, l)
					} else {
						kit.Lock(t, owner, l) // beside the holds
						holds[i] = kit.Acquire(t, owner, other)
					}
					require.Equal(t, holds[0].Token(), holds[i].Token(), "they share one lease")
				}
				ended := make(map[int]bool)
				for n, i := range order {
					require.NoError(t, holds[i].Unlock(stranger), "whatever owner its context carries")
					ended[i] = true
					for j, h := range holds {
						if ended[j] {
							hasEnded(t, h, holds[0].Token())
						} else {
							isHeld(t, h)
						}
					}
					if n == 1 {
						kit.Unlock(t, owner, l)
					}
				}
				require.NoError(t, l.Err())
				require.False(t, kit.IsClosed(l.Done()))
				kit.Unlock(t, kit.Background, l)
				require.ErrorIs(t, l.Unlock(owner), relock.ErrNotHeld)
				require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
				require.NoError(t, tryFor(t, kit.Background, k.blocker(ss, "lock")))
			})
		})
	}
}

// Holds of one owner are lost together. The owner may lock again when all are unlocked.
func TestHoldsOfAnOwnerAreLostTogether(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		ss := k.sessions(t)
		owner, l := ss[0].NewContext(kit.Background), k.of(ss, "lock")
		early := kit.Acquire(t, owner, l)
		holds := []*relock.Hold{kit.Acquire(t, owner, l), kit.Acquire(t, owner, l)}
		require.NoError(t, early.Unlock(owner))
		done := holds[0].Done() // it is asked for before the loss, the other's after it
		for _, s := range ss {
			_, err := s.ForceUnlock(kit.Background, "lock")
			require.NoError(t, err)
		}
		kit.Receive(t, done, "the loss")
		for _, h := range holds {
			require.ErrorIs(t, h.Err(), relock.ErrLost)
			require.True(t, kit.IsClosed(h.Done()))
			require.ErrorIs(t, l.Lock(owner), relock.ErrLost)
			require.ErrorIs(t, h.Unlock(owner), relock.ErrLost)
			require.ErrorIs(t, h.Err(), relock.ErrLost)
		}
		hasEnded(t, early, early.Token())
		require.NoError(t, tryFor(t, owner, l))
	})
}

// Without an owner a hold, what Do has, and what the handle has are each their own: of readers and of permits, which may be
// held together.
func TestHoldsAndHandlesOfOneLockValueAreApart(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	for what, l := range map[string]relock.Locker{
		"lock":  s.RWMutex("lock").RLocker(),
		"fixed": s.RWMutex("fixed", relock.WithFixedLease(time.Hour)).RLocker(),
		"sem":   s.Semaphore("sem", 10),
		"group": relock.NewGroup(s.RWMutex("group").RLocker(), s.Semaphore("permits", 10)),
	} {
		for range 2 {
			kit.Lock(t, kit.Background, l)
		}
		one, two := kit.Acquire(t, kit.Background, l), kit.Acquire(t, kit.Background, l)
		require.NoError(t, relock.Do(kit.Background, l, func(context.Context) error {
			require.NoError(t, one.Unlock(kit.Background), what)
			return nil
		}))
		hasEnded(t, one, one.Token())
		isHeld(t, two)
		for range 2 {
			require.NoError(t, l.Err(), what)
			kit.Unlock(t, kit.Background, l)
		}
		require.ErrorIs(t, l.Err(), relock.ErrNotHeld, what)
		require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld, what)
		isHeld(t, two)
		require.NoError(t, two.Unlock(kit.Background), what)
		require.Empty(t, inspect(t, s, what).Holders, what)
	}
}

// Of many that unlock a hold at the same time one has done it.
func TestHoldEndsOnce(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		ss := k.sessions(t)
		for _, parent := range []context.Context{kit.Background, ss[0].NewContext(kit.Background)} {
			var ended, refused atomic.Int32
			h, after := kit.Acquire(t, parent, k.of(ss, "lock")), k.of(ss, "lock")
			next := kit.Async(func() error { return after.Lock(kit.Background) })
			require.NoError(t, kit.Together(20, func(int) error {
				switch err := h.Unlock(kit.Background); {
				case err == nil:
					ended.Add(1)
				case errors.Is(err, relock.ErrNotHeld):
					refused.Add(1)
				default:
					return err
				}
				return nil
			}))
			require.EqualValues(t, 1, ended.Load())
			require.EqualValues(t, 19, refused.Load())
			require.NoError(t, kit.Receive(t, next, "the next one to lock"))
			require.NoError(t, after.Err())
			kit.Unlock(t, kit.Background, after)
		}
	})
}

func TestMethodsOfANilHold(t *testing.T) {
	t.Parallel()
	var h *relock.Hold
	hasEnded(t, h, 0)
	require.Empty(t, h.Name())
	require.Equal(t, -1, h.Slot())
	require.Nil(t, h.Members())
	require.Nil(t, h.Wanted())
	ctx, cancel := h.Context(kit.Background)
	defer cancel()
	require.Nil(t, relock.HoldOf(ctx))
}

// Handles that many goroutines share, with losses in between: each Lock has its Unlock, each loss is told once, and nothing
// is left.
func TestSharedHandleWithLosses(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		p := newSite(t, k.servers)
		l, by := k.of(p.sessions, "lock"), p.more(t)
		end := time.Now().Add(kit.Stress(t, 500*time.Millisecond))
		var inside, lost, most atomic.Int64
		stop := make(chan struct{})
		forcing := kit.Async(func() error {
			for {
				select {
				case <-stop:
					return nil
				case <-time.After(5 * time.Millisecond):
				}
				for _, s := range by {
					if _, err := s.ForceUnlock(kit.Background, "lock"); err != nil {
						return err
					}
				}
			}
		})
		require.NoError(t, kit.Together(200, func(int) error {
			for time.Now().Before(end) || lost.Load() == 0 {
				if err := l.Lock(kit.Background); err != nil {
					return err
				}
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(100 * time.Microsecond)
				inside.Add(-1)
				if err := l.Unlock(kit.Background); errors.Is(err, relock.ErrLost) {
					lost.Add(1)
				} else if err != nil {
					return err
				}
			}
			return nil
		}))
		close(stop)
		require.NoError(t, kit.Receive(t, forcing, "the end of the losses"))
		require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld, "no hold is left")
		nothingLeft(t, p.clients...)
		t.Logf("%d losses, %d at the same time", lost.Load(), most.Load())
	})
}
