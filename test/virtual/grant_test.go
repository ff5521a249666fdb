package virtual_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// Nor does the deadline of a lock that another released count on more than Redis grants, whenever the
// waiter has looked at the lock last.
func TestDeadlineOfALockThatWasWaitedFor(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.lock()
		dl, ok := l.(interface{ Deadline() (time.Time, bool) })
		if !ok {
			return
		}
		p.delay(400 * time.Millisecond)
		for i := range 40 {
			holder := other.opposite()
			require.NoError(t, holder.Lock(background))
			time.AfterFunc(5*time.Second+time.Duration(i)*45*time.Millisecond, func() { _ = holder.Unlock(background) })
			require.NoError(t, l.Lock(background))
			at, held := dl.Deadline()
			require.True(t, held)
			require.LessOrEqual(t, time.Until(at), w.ttl())
			require.NoError(t, l.Unlock(background))
			time.Sleep(time.Second)
		}
	})
}

// What gives the lock to a waiter arrives when another has it already.
func TestGrantThatIsHeardTooLateIsNone(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() || w.typ.redis > 1 {
			return
		}
		holder, late, next := w.process(), w.process(), w.process()
		held := holder.held()
		got := make([]chan relock.Locker, 2)
		for i, p := range []*process{late, next} {
			got[i] = make(chan relock.Locker, 1)
			go func() { got[i] <- p.held() }()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		heal := late.partition()
		require.NoError(t, held.Unlock(background))
		l := <-got[1]
		heal()
		time.Sleep(lease / 2)
		require.Empty(t, got[0])
		require.NoError(t, l.Err())
		require.NoError(t, l.Unlock(background))
		require.NoError(t, (<-got[0]).Unlock(background))
	})
}

// The waiter looks when the lease is over that the lock had when it asked. The lock was released long
// before that, and is the waiter's.
func TestGrantWhoseMessageIsLostIsFoundByTheNextLook(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if len(w.typ.names) > 1 || w.typ.redis > 1 {
			return
		}
		const delay, left = 5 * time.Millisecond, 700 * time.Millisecond
		p, other := w.process(), w.process(relock.WithLease(time.Second))
		p.delay(delay)
		for round := range 5 {
			holder := other.opposite()
			require.NoError(t, holder.Lock(background))
			time.Sleep(time.Second - left - delay)
			time.AfterFunc(100*time.Millisecond, func() { _ = holder.Unlock(background) })
			p.networks(func(n *memredis.Process) { n.LoseMessage("granted ") })
			l, want := p.lock(), left+time.Millisecond+4*delay
			if round == 0 {
				want += 2 * delay // the server does not know the script of looks
			}
			require.Less(t, want, claim)
			require.Equal(t, want, took(func() { require.NoError(t, l.Lock(background)) }))
			time.Sleep(lease / 2)
			require.NoError(t, l.Unlock(background))
			time.Sleep(time.Second)
			require.True(t, w.free())
		}
	})
}

// What a release or a hand-off gives a waiter is renewed to the waiter's length, whatever that of
// the holder before was.
func TestGrantIsRenewedToItsOwnLength(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for _, from := range lengths {
			for _, to := range lengths {
				before, l := other.opposite(), p.lock(relock.WithLease(to))
				if w.exclusive() {
					before = other.lock(relock.WithLease(from))
				}
				require.NoError(t, before.Lock(background))
				got := begin(background, l)
				time.Sleep(3 * time.Second)
				require.NoError(t, before.Unlock(background))
				require.NoError(t, <-got)
				for range 10 {
					time.Sleep(to / 7)
					require.NoError(t, l.Err())
					require.LessOrEqual(t, w.ttl(), to)
					require.GreaterOrEqual(t, w.ttl(), to*2/3-time.Second)
				}
				require.NoError(t, l.Unlock(background))
				time.Sleep(time.Second)
			}
		}
	})
}
