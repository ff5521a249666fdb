package virtual_test

import (
	"errors"
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
		lose  func(p *process)
		is    error
		cause string
	}{
		"Redis is silent": {nil, func(p *process) { p.w.t.Cleanup(p.partition()) },
			relock.ErrExpired, "its lease ran out before it could be renewed"},
		"fixed lease": {[]relock.LockOption{relock.WithFixedLease(time.Minute)}, func(*process) {},
			relock.ErrExpired, "its lease ran out"},
		"longest hold": {[]relock.LockOption{relock.WithMaxHold(time.Minute)}, func(*process) {},
			relock.ErrExpired, "it was held for as long as WithMaxHold allows"},
		"forced open": {nil, func(p *process) { time.Sleep(time.Second); p.force() },
			relock.ErrForced, "it was forced open"},
		"deleted": {nil, func(p *process) { p.w.do("FLUSHALL") }, relock.ErrGone, "it is not in Redis any more"},
		"closed": {nil, func(p *process) { time.Sleep(time.Second); _ = p.closeAll(time.Minute) },
			relock.ErrClosed, "the session was closed"},
	} {
		t.Run(what, func(t *testing.T) {
			onEachObserved(t, func(t *testing.T, o *observation) {
				l, start := o.p.held(row.opts...), time.Now()
				o.r.take()
				row.lose(o.p)
				cause := o.wantLost(lost(t, l).Sub(start), row.cause)
				for _, err := range []error{cause, l.Err(), l.Unlock(background)} {
					require.ErrorIs(t, err, relock.ErrLost)
					for _, other := range []error{relock.ErrExpired, relock.ErrForced, relock.ErrGone, relock.ErrClosed} {
						require.Equal(t, other == row.is, errors.Is(err, other), "%v is %v", err, other)
					}
					require.ErrorContains(t, err, row.cause)
				}
				o.wants()
			})
		})
	}
}

// The next Lock of the process waits for a renewal to find out that Redis has forgotten the hold.
func TestObserverIsToldOfALossThatTheNextLockFinds(t *testing.T) {
	onEachObserved(t, func(t *testing.T, o *observation) {
		if !o.exclusive() || o.typ == semaphore || o.typ == fair { // whose calls ask Redis
			return
		}
		l, next := o.p.held(), o.p.lock()
		time.Sleep(time.Second)
		o.do("FLUSHALL")
		o.r.take()
		at := took(func() { require.NoError(t, next.Lock(background)) })
		require.NotZero(t, at)
		require.WithinDuration(t, time.Now(), lost(t, l), 0)
		losses := o.r.takeLosses()
		require.Len(t, losses, 1)
		require.EqualError(t, losses[0].Cause, "relock: lock lost: it is not in Redis any more")
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
		if o.kind != relock.KindGroup && o.kind != relock.KindRedlock {
			require.ErrorContains(t, e.Err, "no confirmation from Redis")
		}
		e.Err = nil
		require.Equal(t, o.released("unlock", 0), event{events[0].by, e})
	})
}

// Readers of a process share a lease, through one handle or several, and each has a hold of its own to end or to
// lose.
func TestReadersOfOneLeaseAreObservedOneByOne(t *testing.T) {
	alone(t, reader, func(t *testing.T, w *world) {
		r := new(recorder)
		p := w.process(relock.WithObserver(r))
		one := p.lock()
		for _, locks := range [][]relock.Locker{{one, one, one}, {p.lock(), p.lock(), p.lock()}} {
			r.take()
			for i, l := range locks {
				require.NoError(t, l.Lock(background))
				e := r.take()[0].of.(relock.AcquireEvent)
				require.Equal(t, i > 0, e.Local, "it joins")
				time.Sleep(time.Second)
			}
			require.NoError(t, locks[0].Unlock(background))
			require.Equal(t, 3*time.Second, r.take()[0].of.(relock.ReleaseEvent).Held)
			p.force()
			var held []time.Duration
			for _, e := range r.takeLosses() {
				held = append(held, e.Held)
			}
			require.ElementsMatch(t, []time.Duration{2 * time.Second, time.Second}, held)
			for _, l := range locks[1:] {
				require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			}
			require.Zero(t, r.held)
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
		require.ErrorContains(t, rounds[0].Err, "relock: renew")
		require.Equal(t, len(o.typ.names), rounds[0].Holds)
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(background))
	})
}

// A group and a Redlock tell each observer of their sessions, and each of them once.
func TestObserversOfSeveralSessionsAreEachToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, of := range []func(s []*relock.Session) relock.Locker{
			func(s []*relock.Session) relock.Locker {
				return relock.NewGroup(s[0].Mutex("a"), s[1].Mutex("b"), s[2].Mutex("c"))
			},
			func(s []*relock.Session) relock.Locker { return relock.NewRedlock(s, "a") },
		} {
			shared, own := new(recorder), new(recorder)
			var s []*relock.Session
			for _, o := range []relock.Observer{shared, shared, own} {
				s = append(s, relocktest.New(t).Session(relock.WithObserver(o)))
			}
			l := of(s)
			require.NoError(t, l.Lock(background))
			require.NoError(t, l.Unlock(background))
			time.Sleep(time.Second)
			require.NoError(t, l.Lock(background))
			for _, s := range s {
				require.NoError(t, s.Close(background))
			}
			synctest.Wait()
			require.Len(t, shared.take(), 4)
			require.Len(t, own.take(), 4)
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		}
	})
}

// plain hides the type of a lock.
type plain struct{ relock.Locker }

// An observer is told why a group was lost, also by a member of which it hears nothing else.
func TestObserverIsToldWhyAGroupWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const forced = "it was forced open"
		redis, r := relocktest.New(t), new(recorder)
		s, deaf := redis.Session(relock.WithObserver(r)), redis.Session()
		for _, row := range []struct {
			title, cause string
			other        relock.Locker
		}{
			{"a, b", forced, deaf.Mutex("b")},
			{"a, b, c", forced, relock.NewGroup(deaf.Mutex("b"), deaf.Mutex("c"))},
			{"a, b", forced, relock.NewRedlock([]*relock.Session{deaf}, "b")},
			{"a, virtual_test.plain", forced, plain{deaf.Mutex("b")}},
		} {
			g := relock.NewGroup(s.Mutex("a"), row.other)
			require.NoError(t, g.Lock(background))
			r.take()
			time.Sleep(time.Second)
			redis.Lose("b")
			o := &observation{world: &world{t: t}, r: r, kind: relock.KindGroup, title: row.title}
			o.wantLost(time.Second, row.cause)
			require.ErrorIs(t, g.Unlock(background), relock.ErrLost)
			o.wants()
		}
	})
}
