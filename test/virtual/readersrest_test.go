package virtual_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// A reader had a minimum hold, which is long over. The last reader's release grants the first
// writer, at once.
func TestLastReaderLeavesAfterOneThatRested(t *testing.T) {
	alone(t, writer, func(t *testing.T, w *world) {
		a, b, c, d := w.process(), w.process(), w.process(), w.process()
		x, y := reader.make(a.s, relock.WithMinHold(time.Second)), reader.make(b.s)
		require.NoError(t, x.Lock(background))
		require.NoError(t, y.Lock(background))
		require.NoError(t, x.Unlock(background))
		time.Sleep(5 * time.Second)
		wl, rl := c.lock(), reader.make(d.s)
		wgot := locking(wl)
		rgot := locking(rl)
		start := time.Now()
		require.NoError(t, y.Unlock(background))
		var order string
		for range 2 {
			select {
			case <-wgot:
				order += "writer "
				t.Log("writer after", time.Since(start))
				require.NoError(t, wl.Unlock(background))
			case <-rgot:
				order += "reader "
				t.Log("reader after", time.Since(start))
				require.NoError(t, rl.Unlock(background))
			}
		}
		assert.Equal(t, "writer reader ", order)
		assert.Less(t, time.Since(start), 100*time.Millisecond)
		time.Sleep(time.Minute)
	})
}

// Readers with a minimum hold come and go. A writer waits for one phase of them, or two.
func TestWriterBehindReadersThatRest(t *testing.T) {
	for _, min := range []time.Duration{0, time.Second} {
		t.Run(min.String(), func(t *testing.T) {
			alone(t, writer, func(t *testing.T, w *world) {
				var stop atomic.Bool
				done := make(chan bool, 3)
				var turns atomic.Int64
				for range 3 {
					p := w.process()
					go func() {
						var o []relock.LockOption
						if min > 0 {
							o = append(o, relock.WithMinHold(min))
						}
						l := reader.make(p.s, o...)
						for !stop.Load() {
							assert.NoError(t, l.Lock(background))
							turns.Add(1)
							time.Sleep(50 * time.Millisecond)
							assert.NoError(t, l.Unlock(background))
						}
						done <- true
					}()
					time.Sleep(300 * time.Millisecond)
				}
				p := w.process()
				time.Sleep(3 * time.Second)
				start := time.Now()
				l := p.lock()
				got := begin(background, l)
				select {
				case err := <-got:
					require.NoError(t, err)
					require.NoError(t, l.Unlock(background))
					assert.Less(t, time.Since(start), 5*time.Second)
				case <-time.After(10 * time.Minute):
					t.Errorf("the writer starves: %d reads in 10 minutes", turns.Load())
				}
				stop.Store(true)
				for range 3 {
					<-done
				}
				time.Sleep(2 * lease)
			})
		})
	}
}

// Two readers with a minimum hold of a second: the lock is free a second after.
func TestTwoReadersRest(t *testing.T) {
	alone(t, writer, func(t *testing.T, w *world) {
		a, b, c := w.process(), w.process(), w.process()
		start := time.Now()
		rests := relock.WithMinHold(time.Second)
		x, y := reader.make(a.s, rests), reader.make(b.s, rests)
		require.NoError(t, x.Lock(background))
		require.NoError(t, y.Lock(background))
		require.NoError(t, x.Unlock(background))
		require.NoError(t, y.Unlock(background))
		require.NoError(t, c.lock().Lock(background))
		require.Less(t, time.Since(start), 3*time.Second)
	})
}

// A writer that reads as well ends its minimum hold with the read lock: readers get in at once, a
// writer after it.
func TestMinHoldOfAWriterThatBecomesAReader(t *testing.T) {
	alone(t, writer, func(t *testing.T, w *world) {
		a, b := w.process(), w.process()
		rw := a.s[0].RWMutex("a", relock.WithMinHold(10*time.Second))
		owner := a.s[0].NewContext(background)
		require.NoError(t, rw.Lock(owner))
		require.NoError(t, rw.RLock(owner))
		require.NoError(t, rw.Unlock(owner))
		other := reader.make(b.s)
		ctx, stop := context.WithTimeout(background, time.Second)
		defer stop()
		require.NoError(t, other.Lock(ctx))
		require.NoError(t, other.Unlock(background))
		require.NoError(t, rw.RUnlock(owner))
		start := time.Now()
		l := b.lock()
		ctx, stop = context.WithTimeout(background, time.Minute)
		defer stop()
		require.NoError(t, l.Lock(ctx))
		require.GreaterOrEqual(t, time.Since(start), 10*time.Second)
		require.NoError(t, l.Unlock(background))
	})
}
