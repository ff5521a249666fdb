package virtual_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

func TestFixedLeaseEndsAtItsDeadline(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for _, d := range []time.Duration{20 * time.Millisecond, time.Second, lease, 2 * time.Minute} {
			start := time.Now()
			l := p.taken(relock.WithFixedLease(d))
			// The leases of readers and permits end at a full millisecond of the server's clock, in
			// lock and key alike.
			full := !w.exclusive() || w.typ == semaphore
			require.Contains(t, []time.Duration{d, d - time.Millisecond}[:1+map[bool]int{true: 1}[full]], w.ttl())
			at, held := l.Deadline()
			require.True(t, held)
			require.Equal(t, certain(d), at.Sub(start), "lease %v", d)
			var got []<-chan time.Time // no waiter waits for a poll
			for _, waiter := range []relock.Locker{p.opposite(), other.opposite()} {
				got = append(got, kit.Async(func() time.Time {
					_ = waiter.Lock(background)
					defer func() { _ = waiter.Unlock(background) }()
					return time.Now()
				}))
			}
			require.Equal(t, told(d), lost(t, l).Sub(start), "lease %v", d)
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			for _, got := range got {
				require.LessOrEqual(t, (<-got).Sub(start), d+2*w.slow()+50*time.Millisecond, "lease %v", d)
			}
			time.Sleep(time.Second)
		}
		l := p.held(relock.WithFixedLease(time.Hour))
		require.NoError(t, l.Unlock(background))
		require.True(t, w.free())
	})
}

// lengths of leases: the session's, shorter, longer.
var lengths = []time.Duration{lease, 6 * time.Second, 3 * time.Minute}

// A third of the lease after the last was sent, to its own length.
func TestLeaseIsRenewedEveryThirdOfIt(t *testing.T) {
	for _, d := range lengths {
		delay := time.Duration(0)
		if d == lease { // others coincide with what rueidis sends, and wait for that
			delay = 120 * time.Millisecond
		}
		t.Run(d.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				seen := new(renewals)
				p := w.process(relock.WithObserver(seen))
				p.delay(delay)
				start := time.Now()
				l := p.held(relock.WithLease(d))
				var want []time.Duration
				for round := range 7 {
					want = append(want, time.Duration(round+1)*d/3+2*delay)
					time.Sleep(time.Until(start.Add(want[round])))
					synctest.Wait()
					require.Equal(t, d-delay, w.ttl())
				}
				require.NoError(t, l.Err())
				require.Equal(t, want, seen.since(start))
			})
		})
	}
}

// The hold has the lease of the value that acquired it, whichever value its owner locks again
// through; and what is left of a fixed one.
func TestReentryKeepsTheLeaseOfTheAcquisition(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		owner := p.s[0].NewContext(background)
		for _, d := range lengths {
			for _, other := range lengths {
				first, again := p.lock(relock.WithLease(d)), p.lock(relock.WithLease(other))
				require.NoError(t, first.Lock(owner))
				for i := range 20 {
					require.Equal(t, d-time.Duration(i)*time.Second%(d/3), w.ttl())
					if i == 5 {
						require.NoError(t, again.Lock(owner))
					}
					time.Sleep(time.Second)
					synctest.Wait()
				}
				require.NoError(t, first.Unlock(owner))
				require.NoError(t, again.Err())
				require.NoError(t, again.Unlock(owner))
			}
			start := time.Now()
			fixed := p.lock(relock.WithFixedLease(d))
			locks := []relock.Locker{fixed, fixed, p.lock(relock.WithFixedLease(time.Hour)), p.lock()}
			for _, l := range locks {
				require.NoError(t, l.Lock(owner))
				require.Equal(t, d-time.Since(start), w.ttl())
				time.Sleep(d / 10)
			}
			require.Equal(t, told(d), lost(t, fixed).Sub(start))
			for _, l := range locks { // each of them is to be unlocked
				require.ErrorIs(t, l.Unlock(owner), relock.ErrLost)
			}
			require.ErrorIs(t, fixed.Unlock(owner), relock.ErrNotHeld)
			time.Sleep(time.Second)
		}
	})
}

// For a lease of another length it is released, and acquired with that.
func TestHoldIsPassedOnAmongEqualLeases(t *testing.T) {
	const short = 6 * time.Second
	leases := map[time.Duration][]relock.LockOption{
		0: nil, lease: {relock.WithLease(lease)}, short: {relock.WithLease(short)},
	}
	onEach(t, func(t *testing.T, w *world) {
		if !w.passedOn() && w.typ.redis == 1 {
			return
		}
		p := w.process(relock.WithTenure(time.Hour))
		for from, fromOpts := range leases {
			for to, toOpts := range leases {
				l, next := p.held(fromOpts...), p.lock(toOpts...)
				before := w.fields()
				got := begin(background, next)
				synctest.Wait()
				require.NoError(t, l.Unlock(background))
				require.NoError(t, <-got)
				passed := from == to || from+to == lease // which is the default
				require.Equal(t, passed, slices.Equal(before, w.fields()))
				if to == 0 {
					to = lease
				}
				require.Equal(t, to, w.ttl())
				require.NoError(t, next.Unlock(background))
				time.Sleep(time.Second)
			}
		}
	})
}

// Readers of a session share one hold in Redis if their leases have the session's length. Others
// have one of their own, and go on when the shared one is over.
func TestReadersWithALeaseOfTheirOwn(t *testing.T) {
	alone(t, reader, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		usual, same := p.lock(), p.lock(relock.WithLease(lease))
		short, fixed := p.lock(relock.WithLease(6*time.Second)), p.lock(relock.WithFixedLease(time.Second))
		for _, l := range []relock.Locker{usual, same, short, short, short, fixed, fixed} {
			require.NoError(t, l.Lock(background))
		}
		require.Len(t, w.fields(), 1+1+3+2) // the mode
		time.Sleep(2 * time.Minute)
		for range 2 {
			require.ErrorIs(t, fixed.Unlock(background), relock.ErrLost)
		}
		require.NoError(t, usual.Unlock(background))
		require.Len(t, w.fields(), 1+1+3)
		require.NoError(t, same.Unlock(background))
		for range 3 {
			ok, err := other.opposite().TryLock(background)
			require.NoError(t, err)
			require.False(t, ok)
			require.LessOrEqual(t, w.ttl(), lease)
			time.Sleep(2 * time.Minute)
			require.NoError(t, short.Err())
			require.NoError(t, short.Unlock(background))
		}
		require.ErrorIs(t, short.Err(), relock.ErrNotHeld)
		require.NoError(t, other.opposite().Lock(background))
	})
}

// The deadline never counts on more than Redis grants, whatever the latency: that of the
// acquisition and that of a renewal.
func TestDeadlineCountsFromTheSending(t *testing.T) {
	const delay = 100 * time.Millisecond
	onEach(t, func(t *testing.T, w *world) {
		for _, renewals := range []int{0, 3} {
			p := w.process()
			p.delay(delay)
			start := time.Now()
			require.ErrorIs(t, relock.Do(background, p.lock(), func(ctx context.Context) error {
				for round := range renewals {
					at, ok := relock.HoldOf(ctx).Deadline()
					require.True(t, ok)
					require.Equal(t, time.Duration(round)*lease/3+certain(lease), at.Sub(start))
					require.LessOrEqual(t, time.Until(at), w.ttl())
					time.Sleep(time.Until(start.Add(time.Duration(round)*lease/3 + lease/2)))
				}
				p.partition()
				require.Equal(t, time.Duration(renewals)*lease/3+told(lease), lost(t, relock.HoldOf(ctx)).Sub(start), "after %d renewals", renewals)
				return nil
			}), relock.ErrLost)
			time.Sleep(lease) // until it has ended in Redis, too
		}
	})
}

// What was sent before the partition counts, although the reply came after it.
func TestRenewalWhoseReplyIsLateCountsFromItsSending(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		start := time.Now()
		l := p.held()
		time.Sleep(lease/3 - 300*time.Millisecond)
		heal := p.partition()
		time.Sleep(500 * time.Millisecond) // the renewal is 200 ms old
		heal()
		time.Sleep(time.Millisecond)
		p.partition()
		require.Equal(t, lease/3+told(lease), lost(t, l).Sub(start))
	})
}

// The key of a writer lives longer than its lease: since the server's clock has stepped back, or
// its owner has read with a longer one. The next renewal ends that. So the lock is free within a
// lease of the writer's death.
func TestDeadWriterIsGoneWithinItsLease(t *testing.T) {
	for _, why := range []string{"step back", "a longer lease to read"} {
		t.Run(why, func(t *testing.T) {
			alone(t, writer, func(t *testing.T, w *world) {
				p, next := w.process(), w.process()
				owner := p.s[0].NewContext(background)
				require.NoError(t, p.s[0].RWMutex("a").Lock(owner))
				if why == "step back" {
					w.redis[0].StepClock(-2 * time.Hour)
				} else {
					reads := p.s[0].RWMutex("a", relock.WithLease(10*time.Minute))
					require.NoError(t, reads.RLock(owner))
					require.NoError(t, reads.RUnlock(owner))
				}
				time.Sleep(time.Minute)
				p.die(true)
				require.Less(t, took(func() { next.held() }), lease+time.Second)
			})
		})
	}
}
