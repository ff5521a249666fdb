package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
)

func TestFixedLeaseEndsAtItsDeadline(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		for _, d := range []time.Duration{20 * time.Millisecond, time.Second, lease, 2 * time.Minute} {
			start := time.Now()
			l := p.held(relock.WithFixedLease(d))
			require.Equal(t, d, w.ttl())
			if dl, ok := l.(interface{ Deadline() (time.Time, bool) }); ok {
				at, held := dl.Deadline()
				require.True(t, held)
				require.Equal(t, certain(d), at.Sub(start), "lease %v", d)
			}
			require.Equal(t, told(d), lost(t, l).Sub(start), "lease %v", d)
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			time.Sleep(time.Second) // until it has ended in Redis, too
		}
	})
}

// A third of the lease after the last was sent.
func TestLeaseIsRenewedEveryThirdOfIt(t *testing.T) {
	const delay = 100 * time.Millisecond
	onEach(t, func(t *testing.T, w *world) {
		seen := new(renewals)
		p := w.process(relock.WithObserver(seen))
		p.delay(delay)
		start := time.Now()
		l := p.held()
		time.Sleep(time.Until(start.Add(5 * lease / 2)))
		require.NoError(t, l.Err())
		var want []time.Duration
		for round := range 7 {
			want = append(want, time.Duration(round+1)*lease/3+2*delay)
		}
		require.Equal(t, want, seen.since(start))
	})
}

// The deadline never counts on more than Redis grants, whatever the latency.
func TestDeadlineCountsFromTheSending(t *testing.T) {
	const delay = 100 * time.Millisecond
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		p.delay(delay)
		start := time.Now()
		l := p.held()
		dl, ok := l.(interface{ Deadline() (time.Time, bool) })
		if !ok {
			return
		}
		for round := range 3 {
			at, held := dl.Deadline()
			require.True(t, held)
			require.Equal(t, time.Duration(round)*lease/3+certain(lease), at.Sub(start))
			require.LessOrEqual(t, time.Until(at), w.ttl())
			time.Sleep(time.Until(start.Add(time.Duration(round)*lease/3 + lease/2)))
		}
		p.partition() // 35 s after the start, 5 s after a renewal
		require.Equal(t, lease+told(lease), lost(t, l).Sub(start))
	})
}

// What was sent before the partition counts, although the reply came after it.
func TestRenewalWhoseReplyIsLateCountsFromItsSending(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		start := time.Now()
		l := p.held()
		time.Sleep(lease/3 - time.Second)
		heal := p.partition()
		time.Sleep(3 * time.Second) // the renewal is 2 s old
		heal()
		time.Sleep(time.Millisecond)
		p.partition()
		require.Equal(t, lease/3+told(lease), lost(t, l).Sub(start))
	})
}

// No reply is accepted that comes when the lease it grants may have ended.
func TestGrantThatComesTooLateIsNone(t *testing.T) {
	const short, delay = time.Second, 600 * time.Millisecond
	onEach(t, func(t *testing.T, w *world) {
		p := w.process(relock.WithLease(short))
		p.delay(delay)
		ok, err := p.lock().TryLock(background)
		require.False(t, ok)
		require.Error(t, err)
		p.delay(0)
		time.Sleep(4 * short)
		require.True(t, w.free())
		ok, err = p.lock().TryLock(background)
		require.NoError(t, err)
		require.True(t, ok)
	})
}

// A suspend is noticed although nobody calls: the clock looks for one every 250 ms.
func TestSuspendPastTheDeadlineIsNoticed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		done := p.held().Done() // Done itself would find the hold expired
		time.Sleep(time.Second)
		for _, s := range p.s {
			peek.Engine(s).Skip(time.Hour)
		}
		start := time.Now()
		<-done
		require.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
	})
}

// The lease runs out in Redis after the loss was told, and the next one gets in then.
func TestLockOfACutOffHolderIsFreeAfterItsLease(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() {
			return
		}
		p, other := w.process(), w.process()
		start := time.Now()
		l := p.held()
		time.Sleep(time.Second)
		p.partition()
		next := other.held()
		require.GreaterOrEqual(t, time.Since(start), lease)
		require.Less(t, time.Since(start), lease+time.Second)
		require.ErrorIs(t, l.Err(), relock.ErrLost)
		require.NoError(t, next.Err())
	})
}

// The lease is the bound if that is shorter, and the last renewal sets what is left of it.
func TestMaxHoldEndsOnTime(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		for most, last := range map[time.Duration]time.Duration{ // when the last renewal is sent
			3 * time.Second:  2 * time.Second,
			25 * time.Second: 2 * (25 * time.Second / 3),
			time.Minute:      50 * time.Second,
		} {
			start := time.Now()
			l := p.held(relock.WithMaxHold(most))
			left := (most - last).Truncate(time.Millisecond)
			require.Equal(t, last+told(left), lost(t, l).Sub(start), "bound %v", most)
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			time.Sleep(time.Until(start.Add(most + time.Millisecond)))
			require.True(t, w.free())
			time.Sleep(time.Second)
		}
	})
}

func TestLockWaitsAsLongAsItsContext(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() {
			return
		}
		p, other := w.process(), w.process()
		p.held()
		const wait = 10 * time.Minute
		start := time.Now()
		ctx, cancel := context.WithTimeout(background, wait)
		defer cancel()
		require.ErrorIs(t, other.lock().Lock(ctx), context.DeadlineExceeded)
		require.Equal(t, wait, time.Since(start))
		start = time.Now()
		ok, err := other.lock().TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		require.Zero(t, time.Since(start))
	})
}

// One message after the release, the waiter of another process has the lock.
func TestReleaseIsHeardAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() || w.typ.redis > 1 { // a Redlock pauses
			return
		}
		p, other := w.process(), w.process()
		l := p.held()
		const later = 3 * time.Minute
		time.AfterFunc(later, func() { _ = l.Unlock(background) })
		start := time.Now()
		other.held()
		require.Equal(t, later, time.Since(start))
	})
}
