package virtual_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A release that falls into the gap between two subscriptions, or whose message is lost with the
// connection, is found when the waiter is subscribed again: long before it would look by itself.
func TestNoWakeUpIsLostWithASubscription(t *testing.T) {
	for _, after := range []time.Duration{-time.Second, -time.Millisecond, 0, time.Millisecond, 50 * time.Millisecond} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				p, other := w.process(), w.process()
				for i := range 4 {
					l, next := p.held(), other.opposite()
					got := begin(background, next)
					time.Sleep(10*time.Second + time.Duration(i)*797*time.Millisecond) // at any point between two looks
					time.AfterFunc(2*time.Second, func() {
						for k, r := range w.redis {
							r.Disconnect(other.s[k])
						}
					})
					time.Sleep(2*time.Second + after)
					start := time.Now()
					require.NoError(t, l.Unlock(background))
					require.NoError(t, <-got)
					require.LessOrEqual(t, time.Since(start), w.slow()+max(0, -after)+500*time.Millisecond)
					require.NoError(t, next.Unlock(background))
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// A waiter that stood still when its turn came does not believe to have the lock, which others have had
// since. It queues again, and keeps that place.
func TestWaiterThatWasPassedOverQueuesAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() || w.typ.redis > 1 || len(w.typ.names) > 1 {
			return
		}
		holder, p, other := w.process(), w.process(), w.process()
		queue := map[bool]string{true: "relock_rwqueue:{a}", false: "relock_queue:{a}"}[w.readWrite()]
		c := w.redis[0].Client()
		for range 5 {
			held, l, next := holder.held(), p.lock(), other.lock()
			got := locking(l)
			last := locking(next)
			heal := p.partition()
			require.NoError(t, held.Unlock(background))
			require.NoError(t, <-last)
			heal()
			time.Sleep(2 * time.Second)
			places := func() []string {
				ids, err := c.Do(background, c.B().Zrange().Key(queue).Min("0").Max("-1").Build()).AsStrSlice()
				require.NoError(t, err)
				return ids
			}
			before := places()
			require.Len(t, before, 1)
			for range 40 {
				time.Sleep(time.Second)
				require.Equal(t, before, places())
			}
			require.Empty(t, got)
			require.NoError(t, next.Unlock(background))
			start := time.Now()
			require.NoError(t, <-got)
			require.Zero(t, time.Since(start))
			require.NoError(t, l.Unlock(background))
			time.Sleep(time.Second)
		}
	})
}
