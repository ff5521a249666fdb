package virtual_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// What a hold that was handed over has in common with one that was acquired: everything, 50 ms after Lock has returned.

const soon = 50 * time.Millisecond

// handOver has p wait behind another process, for so long, and returns its lock when Lock has returned.
func (p *process) handOver(from *process, wait time.Duration, o ...relock.LockOption) *kit.HoldLocker {
	p.w.t.Helper()
	before, l := from.opposite(), p.acquirer(o...)
	require.NoError(p.w.t, before.Lock(background))
	time.AfterFunc(wait, func() { _ = before.Unlock(background) })
	require.NoError(p.w.t, l.Lock(background))
	return l
}

// The waits differ in how long ago the waiter has looked when it is granted the lock; after seen it was long ago.
const seen = 1600 * time.Millisecond

var waitedFor = []time.Duration{100 * time.Millisecond, seen, 4 * time.Second}

// eachHandOver runs f in a bubble for each type of lock that is handed over, and each of the leases.
func eachHandOver(t *testing.T, leases []time.Duration, f func(t *testing.T, w *world, d time.Duration)) {
	t.Helper()
	for _, d := range leases {
		t.Run(d.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				if w.typ.redis == 1 { // a Redlock is never handed over
					f(t, w, d)
				}
			})
		})
	}
}

var longAndShort = []time.Duration{time.Second, lease, 10 * time.Minute}

// hasWhole asserts that a lease of d was sent at most soon ago.
func (w *world) hasWhole(t *testing.T, l *kit.HoldLocker, d time.Duration, what ...any) {
	t.Helper()
	require.NoError(t, l.Err(), what...)
	require.LessOrEqual(t, w.ttl(), d, what...)
	require.GreaterOrEqual(t, w.ttl(), d-soon-2*time.Millisecond, what...)
	at, held := l.Deadline()
	require.True(t, held, what...)
	require.GreaterOrEqual(t, time.Until(at), certain(d)-soon-2*time.Millisecond, what...)
	require.LessOrEqual(t, time.Until(at), w.ttl(), what...)
}

// It is renewed in its time after that, whatever the lease of the one that released the lock was; a fixed lease is set
// once, and one that WithMaxHold bounds reaches no further.
func TestHandedOverHoldHasItsWholeLeaseSoon(t *testing.T) {
	for what, lengths := range map[string][]time.Duration{
		"renewed": longAndShort, "fixed": longAndShort, "bounded": {time.Second, 12 * time.Second, 50 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			eachHandOver(t, lengths, func(t *testing.T, w *world, d time.Duration) {
				p, whole, latest := w.process(), d, told(d)+soon
				option := map[string]relock.LockOption{"renewed": relock.WithLease(d), "fixed": relock.WithFixedLease(d)}[what]
				if what == "bounded" {
					option, whole, latest = relock.WithMaxHold(d), min(d, lease), d
				}
				for i, wait := range waitedFor {
					l := p.handOver(w.process(relock.WithLease(longAndShort[i])), wait, option)
					start := time.Now()
					time.Sleep(soon)
					w.hasWhole(t, l, whole, wait)
					if d > time.Minute && wait != seen { // minutes of virtual time take seconds
						require.NoError(t, l.Unlock(background))
						continue
					}
					for range 9 {
						before := w.ttl()
						time.Sleep(d / 10)
						require.NoError(t, l.Err())
						switch left := w.ttl(); what {
						case "renewed":
							require.LessOrEqual(t, left, d)
							require.GreaterOrEqual(t, left, d*2/3-d/100-time.Millisecond)
						case "fixed":
							require.InDelta(t, before-d/10, left, float64(time.Millisecond), "it was renewed")
						case "bounded":
							require.LessOrEqual(t, time.Since(start)+left, d)
						}
					}
					if what == "renewed" {
						require.NoError(t, l.Unlock(background))
					} else {
						took := lost(t, l).Sub(start)
						require.GreaterOrEqual(t, took, told(d)-2*time.Millisecond)
						require.LessOrEqual(t, took, latest)
						require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// Redis is away for almost half a lease, soon after a hand-over or a little later.
func TestHandedOverHoldOutlivesOutagesOfHalfItsLease(t *testing.T) {
	outages := map[string]struct{ begin, end func(p *process) }{
		"silence": {func(p *process) { p.networks(func(n *memredis.Process) { n.Cut() }) }, (*process).heal},
		"refusal": {(*process).refuse, (*process).heal},
		"restart": {func(p *process) { p.refuse(); p.w.restart(true) }, (*process).heal},
		"loading": {
			func(p *process) { p.onScripts(func() string { return "LOADING Redis is loading" }) },
			func(p *process) { p.onScripts(func() string { return "" }) },
		},
	}
	for what, outage := range outages {
		t.Run(what, func(t *testing.T) {
			eachHandOver(t, longAndShort, func(t *testing.T, w *world, d time.Duration) {
				begins := []time.Duration{soon, d / 4}
				if d > lease { // minutes of virtual time take seconds
					if begins = begins[:1]; what != "silence" && what != "refusal" {
						return
					}
				}
				from, p := w.process(), w.process()
				for _, after := range begins {
					l := p.handOver(from, seen, relock.WithLease(d))
					time.Sleep(after)
					outage.begin(p)
					time.Sleep(d * 45 / 100)
					outage.end(p)
					time.Sleep(d / 4)
					require.NoError(t, l.Err(), "after %v", after)
					require.NoError(t, l.Unlock(background))
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// A section of a few milliseconds is over before its lease would be set: a turn costs two scripts.
func TestShortSectionAfterAHandOverCostsNoRenewal(t *testing.T) {
	const section, turns, each = 15 * time.Millisecond, 20, 2
	eachHandOver(t, []time.Duration{lease}, func(t *testing.T, w *world, _ time.Duration) {
		if len(w.typ.names) > 1 || !w.exclusive() {
			return
		}
		rounds := new(renewals)
		ps := []*process{w.process(relock.WithObserver(rounds)), w.process(relock.WithObserver(rounds))}
		var scripts atomic.Int64
		ps[0].onScripts(func() string { scripts.Add(1); return "" })
		start := time.Now()
		var wg sync.WaitGroup
		for _, p := range ps {
			wg.Go(func() {
				l := p.lock()
				for range turns {
					_ = l.Lock(background)
					time.Sleep(section)
					_ = l.Unlock(background)
				}
			})
		}
		wg.Wait()
		require.Empty(t, rounds.since(start))
		require.LessOrEqual(t, scripts.Load(), int64(len(ps)*turns*each+2), "scripts")
	})
}

// Something breaks once, while the lease is set or renewed for the first time: the reply is lost with the
// connection, or Redis refuses. The next attempt comes long before the claim ends, however long the lease is.
func TestFirstRenewalAfterAHandOverMayFailOnce(t *testing.T) {
	for what, fails := range map[string]func(p *process){
		"the reply is lost": (*process).loseReply,
		"the connection breaks": func(p *process) {
			p.onNextScript(func() string { p.networks((*memredis.Process).Break); return "" })
		},
		"Redis refuses": func(p *process) { p.onNextScript(func() string { return "LOADING Redis is loading" }) },
	} {
		t.Run(what, func(t *testing.T) {
			leases := []time.Duration{lease, 2 * time.Minute, 10 * time.Minute}
			eachHandOver(t, leases, func(t *testing.T, w *world, d time.Duration) {
				from, p := w.process(), w.process()
				l := p.handOver(from, seen, relock.WithLease(d))
				fails(p)
				time.Sleep(lease)
				require.NoError(t, l.Err())
				require.NoError(t, l.Unlock(background))
			})
		})
	}
}

// onScripts has f decide how scripts are answered from now on: with an error, or by Redis.
func (p *process) onScripts(f func() (refusal string)) {
	p.networks(func(n *memredis.Process) {
		n.Server().OnCommand(func(verb string, _ []string) string {
			if strings.HasPrefix(verb, "EVAL") {
				return f()
			}
			return ""
		})
	})
}

// onNextScript does so for one.
func (p *process) onNextScript(f func() (refusal string)) {
	var once sync.Once
	p.onScripts(func() (refusal string) {
		once.Do(func() { refusal = f() })
		return refusal
	})
}

// The server's clock steps ahead by 6 s: less than a lease of 30 s. Whoever waits does not get in while the holder
// is certain, however that has got the lock.
func TestStepOfTheClockMakesNoSecondHolder(t *testing.T) {
	for _, handedOver := range []bool{true, false} {
		t.Run(fmt.Sprint("handed over: ", handedOver), func(t *testing.T) {
			eachHandOver(t, []time.Duration{lease}, func(t *testing.T, w *world, _ time.Duration) {
				from, p, next := w.process(), w.process(), w.process()
				for _, after := range []time.Duration{soon, time.Second, 8 * time.Second} {
					var l relock.Locker
					if handedOver {
						l = p.handOver(from, seen)
					} else {
						l = p.held()
					}
					waiter := next.opposite()
					got := begin(background, waiter)
					time.Sleep(after)
					w.redis[0].StepClock(6 * time.Second)
					for range 200 { // past the next renewals
						synctest.Wait()
						require.False(t, len(got) > 0 && l.Err() == nil, "two holders; the step came after %v", after)
						time.Sleep(soon)
					}
					require.NoError(t, l.Unlock(background))
					require.NoError(t, <-got)
					require.NoError(t, waiter.Unlock(background))
					time.Sleep(time.Second)
				}
			})
		})
	}
}
