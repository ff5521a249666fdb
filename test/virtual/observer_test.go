package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

func TestObserverIsToldOfEachHoldFromLockToUnlock(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		l := o.p.lock()
		require.NoError(t, l.Lock(call("lock")))
		o.wants(o.acquired("lock", l, nil))
		time.Sleep(5 * time.Second)
		o.wants()
		require.NoError(t, l.Unlock(call("unlock")))
		o.wants(o.released("unlock", 5*time.Second))

		ok, err := l.TryLock(call("try"))
		require.True(t, ok)
		require.NoError(t, err)
		o.wants(o.acquired("try", l, nil))
		o.p.delay(50 * time.Millisecond) // which Held does not count
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(call("unlock")))
		o.wants(o.released("unlock", time.Second))

		start := time.Now()
		require.NoError(t, l.Lock(call("slow")))
		require.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
		o.wants(o.acquired("slow", l, func(e *relock.AcquireEvent) { e.Wait = time.Since(start) }))
		require.NoError(t, l.Unlock(call("unlock")))
		o.wants(o.released("unlock", 0))
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		o.wants()
	})
}

func TestReentryIsNoEvent(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		ctx := o.p.s[0].NewContext(call("owner"))
		l, again := o.p.lock(), o.p.lock()
		if o.kind == relock.KindGroup {
			again = l // other groups are re-entrant in their members
		}
		require.NoError(t, l.Lock(ctx))
		o.wants(o.acquired("owner", l, nil))
		require.NoError(t, again.Lock(ctx))
		ok, err := again.TryLock(ctx)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, l.Unlock(ctx))
		require.NoError(t, again.Unlock(ctx))
		o.wants()
		require.NoError(t, l.Unlock(ctx))
		o.wants(o.released("owner", 0))
	})
}

func TestObserverIsToldOfAWaitAtItsStartAndOnce(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		holder, l := o.taken(), o.p.lock()
		start := time.Now()
		got := make(chan time.Duration, 1)
		go func() {
			err := l.Lock(call("lock"))
			got <- time.Since(start)
			require.NoError(t, err)
		}()
		synctest.Wait()
		o.wants(o.waiting("lock"))
		time.Sleep(10 * time.Second) // of several attempts
		o.wants()
		require.NoError(t, holder.Unlock(background))
		wait := <-got
		require.GreaterOrEqual(t, wait, 10*time.Second)
		o.wants(o.acquired("lock", l, func(e *relock.AcquireEvent) { e.Wait, e.Contended, e.Waited = wait, true, true }))
		require.NoError(t, l.Unlock(background))
		o.wants(o.released(nil, 0))
	})
}

// The wait behind another goroutine of the process is told as well, and a hand-off.
func TestObserverIsToldOfHandOffs(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		l, next := o.p.held(), o.p.lock()
		o.wants(o.acquired(nil, l, nil))
		start := time.Now()
		got := make(chan time.Duration, 1)
		go func() {
			err := next.Lock(call("next"))
			got <- time.Since(start)
			require.NoError(t, err)
		}()
		synctest.Wait()
		if o.exclusive() {
			o.wants(o.waiting("next"))
		} else {
			o.wants(o.acquired("next", next, func(e *relock.AcquireEvent) { e.Handoff = true })) // it has joined
		}
		time.Sleep(10 * time.Second)
		require.NoError(t, l.Unlock(call("unlock")))
		wait := <-got
		events := o.r.take()
		released := o.released("unlock", 10*time.Second)
		require.Contains(t, events, released)
		events = slices.DeleteFunc(events, func(e event) bool { return e == released })
		if o.exclusive() {
			require.Equal(t, []event{o.acquired("next", next, func(e *relock.AcquireEvent) {
				e.Wait, e.Contended, e.Waited, e.Handoff = wait, true, true, observed[o.typ.name].passed
			})}, events)
		}
		held := 10*time.Second - wait
		require.NoError(t, next.Unlock(call("unlock")))
		o.wants(o.released("unlock", max(0, held)))
	})
}

func TestObserverIsToldOfATryLockThatMissed(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		missed := func() {
			t.Helper()
			ok, err := o.p.lock().TryLock(call("try"))
			require.False(t, ok)
			require.NoError(t, err)
			o.wants(o.acquired("try", nil, func(e *relock.AcquireEvent) { e.Held, e.Contended = false, true }))
		}
		holder := o.taken()
		missed()
		require.NoError(t, holder.Unlock(background))
		time.Sleep(time.Second)
		if o.exclusive() {
			l := o.p.held()
			o.r.take()
			missed() // by this process
			require.NoError(t, l.Unlock(background))
			o.wants(o.released(nil, 0))
		}
	})
}

// Members of a Group may wait, and be given back because of another member. What holds at the end
// of each test is at stake: each wait has one end.
func TestObserverIsToldOfEachWaitInACrowd(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		other := o.process()
		var crowd sync.WaitGroup
		for range 6 {
			for _, p := range []*process{o.p, other} {
				crowd.Go(func() {
					for i := range 20 {
						ctx, cancel := context.WithTimeout(background, time.Duration(100+i)*time.Millisecond)
						if l := p.lock(); l.Lock(ctx) == nil {
							time.Sleep(20 * time.Millisecond)
							_ = l.Unlock(background)
						}
						cancel()
					}
				})
			}
		}
		crowd.Wait()
	})
}

func TestObserverIsToldOfACancelledWait(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		cancelled := func() {
			t.Helper()
			ctx, cancel := context.WithTimeoutCause(call("lock"), 10*time.Second, errors.New("enough"))
			defer cancel()
			err := o.p.lock().Lock(ctx)
			require.ErrorIs(t, err, relock.ErrTaken)
			o.wants(o.waiting("lock"), o.acquired("lock", nil, func(e *relock.AcquireEvent) {
				e.Held, e.Contended, e.Waited, e.Wait, e.Err = false, true, true, 10*time.Second, err
			}))
		}
		holder := o.taken()
		cancelled()
		require.NoError(t, holder.Unlock(background))
		time.Sleep(time.Second)
		if o.exclusive() {
			l := o.p.held()
			o.r.take()
			cancelled() // behind this process
			require.NoError(t, l.Unlock(background))
			o.wants(o.released(nil, 10*time.Second))
		}
	})
}

// No error is too early, and none is taken for contention.
func TestObserverIsToldOfErrors(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		failed := func(ctx context.Context, l relock.Locker, target error) {
			t.Helper()
			want := func(err error) event {
				require.ErrorIs(t, err, target)
				return o.acquired("lock", nil, func(e *relock.AcquireEvent) { e.Held, e.Err = false, err })
			}
			first := want(l.Lock(ctx))
			_, err := l.TryLock(ctx)
			o.wants(first, want(err))
		}
		for i, r := range o.redis {
			c := r.Client()
			for _, name := range o.typ.names {
				require.NoError(t, c.Do(background, c.B().Set().Key(name).Value("text").Build()).Error(), i)
			}
		}
		failed(call("lock"), o.p.lock(), relock.ErrNotLock)
		failed(call("lock"), o.p.lock(relock.WithMaxHold(time.Millisecond)), relock.ErrOption)
		ctx, cancel := context.WithCancel(call("lock"))
		cancel()
		failed(ctx, o.p.lock(), context.Canceled)
		for _, s := range o.p.s {
			require.NoError(t, s.Close(background))
		}
		failed(call("lock"), o.p.lock(), relock.ErrClosed)
	})
}

// Whatever happens to many calls at once, each has one end, and each hold another.
func TestEventsAddUp(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		const workers, rounds = 8, 20
		other := o.process()
		first := o.p.lock()
		require.NoError(t, first.Lock(call("first")))
		for _, s := range other.s {
			_, err := s.ForceUnlock(background, "a")
			require.NoError(t, err)
		}
		require.ErrorIs(t, first.Unlock(call("first")), relock.ErrLost)
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				l := o.p.lock()
				for n := range rounds {
					name := fmt.Sprint(i, " ", n)
					ctx, cancel := context.WithTimeout(call(name), time.Duration(1+(i*7+n*13)%11)*time.Millisecond)
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
				for _, s := range other.s {
					_, _ = s.ForceUnlock(background, "a")
				}
				if l := other.lock(); l.Lock(background) == nil {
					time.Sleep(3 * time.Millisecond)
					_ = l.Unlock(background)
				}
			}
		})
		wg.Wait()
		time.Sleep(time.Second)
		calls, losses := make(map[any][]any), 0
		for _, e := range o.r.take() {
			switch e.of.(type) {
			case relock.WaitEvent, relock.AcquireEvent:
				calls[e.by] = append(calls[e.by], e.of)
			case relock.LostEvent:
				losses++
			}
		}
		require.Positive(t, losses)
		require.Len(t, calls, workers*rounds+1)
		for by, events := range calls {
			if len(events) == 2 {
				require.IsType(t, relock.WaitEvent{}, events[0], by)
				events = events[1:]
			}
			require.Len(t, events, 1, by)
			require.IsType(t, relock.AcquireEvent{}, events[0], by)
		}
	})
}
