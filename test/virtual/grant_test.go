package virtual_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
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
