package virtual_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

func TestObserverIsToldOfEachLossWithItsCause(t *testing.T) {
	for what, row := range map[string]struct {
		opts  []relock.LockOption
		lose  func(o *observation)
		cause string
	}{
		"Redis is silent": {nil, func(o *observation) { o.t.Cleanup(o.p.partition()) },
			"its lease ran out before it could be renewed"},
		"fixed lease": {[]relock.LockOption{relock.WithFixedLease(time.Minute)}, func(*observation) {},
			"its lease ran out"},
		"longest hold": {[]relock.LockOption{relock.WithMaxHold(time.Minute)}, func(*observation) {},
			"it was held for as long as WithMaxHold allows"},
		"forced open": {nil, func(o *observation) {
			time.Sleep(time.Second)
			for _, s := range o.p.s { // a Redlock gives the last one back itself
				_, err := s.ForceUnlock(background, o.typ.names[0])
				require.NoError(o.t, err)
			}
		}, "it was forced open"},
		"deleted": {nil, func(o *observation) {
			for _, r := range o.redis {
				c := r.Client()
				require.NoError(o.t, c.Do(background, c.B().Flushall().Build()).Error())
			}
		}, "it is not in Redis any more"},
		"closed": {nil, func(o *observation) {
			time.Sleep(time.Second)
			for _, s := range o.p.s {
				require.NoError(o.t, s.Close(background))
			}
		}, relock.ErrClosed.Error()},
	} {
		t.Run(what, func(t *testing.T) {
			onEachObserved(t, func(t *testing.T, o *observation) {
				l := o.p.held(row.opts...)
				o.r.take()
				start := time.Now()
				row.lose(o)
				held := lost(t, l).Sub(start)
				synctest.Wait()
				o.wantLost(held, row.cause)
				require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
				o.wants()
			})
		})
	}
}

// A hold that Unlock finds lost is reported like any other.
func TestObserverIsToldOfALossThatUnlockFinds(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		l := o.p.held()
		o.r.take()
		time.Sleep(time.Second)
		for _, r := range o.redis {
			c := r.Client()
			require.NoError(t, c.Do(background, c.B().Flushall().Build()).Error())
		}
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		o.wantLost(time.Second, "it is not in Redis any more")
	})
}

// A FairMutex may be granted what Redis forgot that this process holds, before a renewal finds out.
func TestObserverIsToldOfALossThatTheNextLockFinds(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		if !o.exclusive() {
			return
		}
		l, next := o.p.held(), o.p.lock()
		time.Sleep(time.Second)
		o.do("FLUSHALL")
		o.r.take()
		at := took(func() { require.NoError(t, next.Lock(background)) })
		require.Equal(t, o.typ == fair, at == 0, at)
		require.WithinDuration(t, time.Now(), lost(t, l), 0)
		synctest.Wait()
		losses := slices.DeleteFunc(o.r.take(), func(e event) bool { _, is := e.of.(relock.LostEvent); return !is })
		require.Len(t, losses, 1)
		require.EqualError(t, losses[0].of.(relock.LostEvent).Cause, "it is not in Redis any more")
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		require.NoError(t, next.Unlock(background))
	})
}

// An Unlock that Redis does not confirm ends the hold all the same.
func TestObserverIsToldOfAReleaseThatIsNotConfirmed(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		l := o.p.held()
		o.r.take()
		heal := o.p.partition()
		require.NoError(t, l.Unlock(call("unlock")))
		heal()
		events := o.r.take()
		require.Len(t, events, 1)
		e, _ := events[0].of.(relock.ReleaseEvent)
		if o.kind != relock.KindGroup && o.kind != relock.KindRedlock { // their members' events have it
			require.ErrorContains(t, e.Err, "no confirmation from Redis")
		}
		e.Err = nil
		require.Equal(t, o.released("unlock", 0), event{events[0].by, e})
	})
}

func TestReadersThroughOneHandleAreObservedOneByOne(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		if o.exclusive() {
			return
		}
		l := o.p.lock()
		for range 3 {
			require.NoError(t, l.Lock(background))
			time.Sleep(time.Second)
		}
		o.r.take()
		require.NoError(t, l.Unlock(background))
		o.wants(o.released(nil, 3*time.Second))
		_, err := o.p.s[0].ForceUnlock(background, "a")
		require.NoError(t, err)
		synctest.Wait()
		var held []time.Duration
		for _, e := range o.r.take() {
			held = append(held, e.of.(relock.LostEvent).Held)
		}
		require.Equal(t, []time.Duration{2 * time.Second, time.Second}, held)
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
	})
}

// Readers of a process share a lease, and each has a hold of its own to lose.
func TestReadersOfOneLeaseAreEachReportedLost(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		if o.exclusive() {
			return
		}
		readers := []relock.Locker{o.p.held(), o.p.held(), o.p.held()}
		o.r.take()
		t.Cleanup(o.p.partition())
		for _, l := range readers {
			lost(t, l)
		}
		synctest.Wait()
		require.Len(t, o.r.take(), len(readers))
		for _, l := range readers {
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		}
	})
}

func TestObserverIsToldOfRenewals(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		l := o.p.held()
		o.r.takeRounds()
		for _, d := range []time.Duration{0, 50 * time.Millisecond} {
			o.p.delay(d)
			time.Sleep(lease/3 + time.Second)
			rounds := o.r.takeRounds()
			require.Len(t, rounds, o.typ.redis)
			for _, e := range rounds {
				require.Equal(t, relock.RenewEvent{Holds: len(o.typ.names), Duration: 2 * d}, e)
			}
		}
		heal := o.p.partition()
		time.Sleep(2 * lease / 3) // a round is given up after a third
		heal()
		rounds := o.r.takeRounds()
		require.NotEmpty(t, rounds)
		failed := rounds[0]
		require.ErrorContains(t, failed.Err, "relock: renew")
		require.Equal(t, len(o.typ.names), failed.Holds)
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(background))
	})
}

// A group and a Redlock tell each observer of their sessions, and each of them once.
func TestObserversOfSeveralSessionsAreEachToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, row := range map[string]struct {
			kind relock.Kind
			make func(s []*relock.Session) relock.Locker
		}{
			"group": {relock.KindGroup, func(s []*relock.Session) relock.Locker {
				return relock.NewGroup(s[0].Mutex("a"), s[1].Mutex("b"), s[2].Mutex("c"))
			}},
			"Redlock": {relock.KindRedlock, func(s []*relock.Session) relock.Locker { return relock.NewRedlock(s, "a") }},
		} {
			shared, own := newRecorder(row.kind), newRecorder(row.kind)
			var s []*relock.Session
			for _, o := range []relock.Observer{shared, shared, own} {
				s = append(s, relocktest.New(t).Session(relock.WithObserver(o)))
			}
			l := row.make(s)
			require.NoError(t, l.Lock(background))
			require.NoError(t, l.Unlock(background))
			time.Sleep(time.Second)
			require.NoError(t, l.Lock(background))
			for _, s := range s {
				require.NoError(t, s.Close(background))
			}
			synctest.Wait()
			for _, r := range []*recorder{shared, own} {
				require.Len(t, r.take(), 4, what)
			}
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		}
	})
}

// plain hides the type of a lock.
type plain struct{ relock.Locker }

// An observer is told why a group was lost, also by a member of which it hears nothing else.
func TestObserverIsToldWhyAGroupWasLost(t *testing.T) {
	for what, row := range map[string]struct {
		other func(s *relock.Session) relock.Locker // a member of a session without an observer
		title string
		cause string
	}{
		"a lock":         {func(s *relock.Session) relock.Locker { return s.Mutex("b") }, "a, b", "it was forced open"},
		"a group":        {func(s *relock.Session) relock.Locker { return relock.NewGroup(s.Mutex("b"), s.Mutex("c")) }, "a, b, c", "it was forced open"},
		"a Redlock":      {func(s *relock.Session) relock.Locker { return relock.NewRedlock([]*relock.Session{s}, "b") }, "a, b", "it was forced open"},
		"a foreign lock": {func(s *relock.Session) relock.Locker { return plain{s.Mutex("b")} }, "a, virtual_test.plain", "a member of the group was lost"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(relock.KindGroup)
				redis := relocktest.New(t)
				deaf := redis.Session()
				g := relock.NewGroup(redis.Session(relock.WithObserver(r)).Mutex("a"), row.other(deaf))
				require.NoError(t, g.Lock(background))
				r.take()
				time.Sleep(time.Second)
				_, err := deaf.ForceUnlock(background, "b")
				require.NoError(t, err)
				synctest.Wait()
				events := r.take()
				require.Len(t, events, 1)
				e := events[0].of.(relock.LostEvent)
				require.EqualError(t, e.Cause, row.cause)
				e.Cause = nil
				require.Equal(t, relock.LostEvent{Name: row.title, Kind: relock.KindGroup, Held: time.Second}, e)
				require.ErrorIs(t, g.Unlock(background), relock.ErrLost)
				require.Empty(t, r.take())
			})
		})
	}
}

// Goroutines of one owner that wait enter together: each Lock has its end, and its hold another.
func TestGoroutinesOfOneOwnerAreObservedOneByOne(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		if !o.exclusive() || o.kind == relock.KindGroup {
			return // they are not contended, or re-entrant in their members
		}
		holder, ctx, l := o.taken(), o.p.s[0].NewContext(background), o.p.lock()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { require.NoError(t, l.Lock(ctx)) })
		}
		synctest.Wait()
		o.wants(o.waiting(nil), o.waiting(nil))
		require.NoError(t, holder.Unlock(background))
		wg.Wait()
		for _, e := range o.r.take() {
			require.True(t, e.of.(relock.AcquireEvent).Held)
		}
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(ctx))
		o.wants()
		require.NoError(t, l.Unlock(ctx))
		o.wants(o.released(nil, time.Second), o.released(nil, time.Second))
	})
}
