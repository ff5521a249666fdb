package virtual_test

import (
	"fmt"
	"testing"
	"testing/synctest"
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
					l, next, got := p.held(), other.opposite(), make(chan error, 1)
					go func() { got <- next.Lock(background) }()
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

// The owner of a write hold that goes on reading lets the waiting readers of other processes in at
// once, and no writer.
func TestDowngradeLetsReadersInAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reader)
		p, other, third := w.process(), w.process(), w.process()
		rw, owner := p.s[0].RWMutex("a"), p.s[0].NewContext(background)
		require.NoError(t, rw.Lock(owner))
		r, got := other.lock(), make(chan error, 1)
		go func() { got <- r.Lock(background) }()
		time.Sleep(time.Minute)
		require.Empty(t, got)
		require.NoError(t, rw.RLock(owner))
		start := time.Now()
		require.NoError(t, rw.Unlock(owner))
		require.NoError(t, <-got)
		require.Zero(t, time.Since(start))
		ok, err := third.opposite().TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, rw.RLocker().Err())
	})
}
