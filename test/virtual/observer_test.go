package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// Re-entry is no event.
func TestObserverIsToldOfEachHoldFromLockToUnlock(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		ctx, l, again := o.p.s[0].NewContext(call("owner")), o.p.lock(), o.p.lock()
		if o.kind == relock.KindGroup {
			again = l // other groups are re-entrant in their members
		}
		require.NoError(t, l.Lock(ctx))
		o.wants(o.acquired("owner", l, relock.AcquireEvent{}))
		time.Sleep(5 * time.Second)
		require.NoError(t, again.Lock(ctx))
		ok, err := again.TryLock(ctx)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, l.Unlock(ctx))
		require.NoError(t, again.Unlock(ctx))
		o.wants()
		require.NoError(t, l.Unlock(ctx))
		o.wants(o.released("owner", 5*time.Second))

		ok, err = l.TryLock(call("try"))
		require.True(t, ok)
		require.NoError(t, err)
		o.wants(o.acquired("try", l, relock.AcquireEvent{}))
		o.p.delay(50 * time.Millisecond) // which Held does not count
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(call("unlock")))
		o.wants(o.released("unlock", time.Second))

		wait := took(func() { require.NoError(t, l.Lock(call("slow"))) })
		require.GreaterOrEqual(t, wait, 100*time.Millisecond)
		o.wants(o.acquired("slow", l, relock.AcquireEvent{Wait: wait}))
		require.NoError(t, l.Unlock(call("unlock")))
		o.wants(o.released("unlock", 0))
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		o.wants()
	})
}

// Behind another process or a goroutine of this one: of a TryLock that misses, of a wait that is cancelled,
// and of one that ends with the lock, at its start and at its end.
func TestObserverIsToldOfContention(t *testing.T) {
	const wait = 10 * time.Second // of several attempts
	for where, here := range map[string]bool{"another process": false, "this process": true} {
		t.Run(where, func(t *testing.T) {
			onEachObserved(t, func(t *testing.T, o *observation) {
				if here && !o.exclusive() {
					return
				}
				from := o.process()
				if here {
					from = o.p
				}
				holder, start := from.opposite(), time.Now()
				require.NoError(t, holder.Lock(background))
				o.r.take()
				ok, err := o.p.lock().TryLock(call("try"))
				require.False(t, ok)
				require.NoError(t, err)
				o.wants(o.acquired("try", nil, relock.AcquireEvent{Contended: true}))

				ctx, cancel := context.WithTimeoutCause(call("lock"), wait, errors.New("enough"))
				defer cancel()
				err = o.p.lock().Lock(ctx)
				require.ErrorIs(t, err, relock.ErrTaken)
				o.wants(o.waiting("lock"),
					o.acquired("lock", nil, relock.AcquireEvent{Contended: true, Waited: true, Wait: wait, Err: err}))

				l, begins := o.p.lock(), time.Now()
				got := begin(call("lock"), l)
				synctest.Wait()
				o.wants(o.waiting("lock"))
				time.Sleep(wait)
				o.wants()
				require.NoError(t, holder.Unlock(call("unlock")))
				var want []event
				if here {
					want = append(want, o.released("unlock", time.Since(start)))
				}
				require.NoError(t, <-got)
				waited := time.Since(begins)
				require.GreaterOrEqual(t, waited, wait)
				require.LessOrEqual(t, waited, wait+o.slow()+time.Millisecond, "it hears of the release at once")
				want = append(want, o.acquired("lock", l, relock.AcquireEvent{
					Contended: true, Waited: true, Wait: waited, Local: here && (o.passedOn() || o.typ == redlock),
				}))
				require.ElementsMatch(t, want, o.r.take())
				require.NoError(t, l.Unlock(background))
				o.wants(o.released(nil, 0))
			})
		})
	}
}

// No error is too early, and none is taken for contention.
func TestObserverIsToldOfErrors(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		failed := func(ctx context.Context, l relock.Locker, target error) {
			t.Helper()
			want := func(err error) event {
				require.ErrorIs(t, err, target)
				return o.acquired("lock", nil, relock.AcquireEvent{Err: err})
			}
			first := want(l.Lock(ctx))
			_, err := l.TryLock(ctx)
			o.wants(first, want(err))
		}
		for _, name := range o.typ.names {
			o.do("SET", name, "text")
		}
		failed(call("lock"), o.p.lock(), relock.ErrNotLock)
		failed(call("lock"), o.p.lock(relock.WithMaxHold(time.Millisecond)), relock.ErrOption)
		ctx, cancel := context.WithCancel(call("lock"))
		cancel()
		failed(ctx, o.p.lock(), context.Canceled)
		require.NoError(t, o.p.closeAll(time.Minute))
		failed(call("lock"), o.p.lock(), relock.ErrClosed)
	})
}

// Whatever happens to many calls at once, each has one end, and each hold another.
func TestEventsAddUp(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		const workers, rounds = 8, 20
		other := o.process()
		first := o.p.held()
		other.force()
		require.ErrorIs(t, first.Unlock(background), relock.ErrLost)
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				l := o.p.lock()
				for n := range rounds {
					ctx, cancel := context.WithTimeout(call(fmt.Sprint(i, " ", n)), time.Duration(1+(i*7+n*13)%11)*time.Millisecond)
					if l.Lock(ctx) == nil {
						time.Sleep(time.Duration((i*5+n*3)%7) * time.Millisecond)
						_ = l.Unlock(ctx)
					}
					cancel()
					time.Sleep(time.Duration((i+n)%3) * time.Millisecond)
				}
			})
		}
		wg.Go(func() {
			for range rounds {
				time.Sleep(5 * time.Millisecond)
				other.force()
				if l := other.lock(); l.Lock(background) == nil {
					time.Sleep(3 * time.Millisecond)
					_ = l.Unlock(background)
				}
			}
		})
		wg.Wait()
		time.Sleep(time.Second)
		ends, losses := make(map[any]int), 0
		for _, e := range o.r.take() {
			switch e.of.(type) {
			case relock.WaitEvent:
				require.Zero(t, ends[e.by], "it waits after its end")
			case relock.AcquireEvent:
				ends[e.by]++
			case relock.LostEvent:
				losses++
			}
		}
		require.Positive(t, losses)
		require.Len(t, ends, workers*rounds+1)
		for by, n := range ends {
			require.Equal(t, 1, n, by)
		}
	})
}
