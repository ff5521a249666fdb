package virtual_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The smallest: one waits, the clock steps back by an hour, another comes: the first is first.
func TestOrderAfterAClockStep(t *testing.T) {
	for _, typ := range []*lockType{&lockTypes[0], fair, writer, semaphore} {
		for _, step := range []time.Duration{-6 * time.Second, -59 * time.Second, -2 * time.Minute, -time.Hour} {
			t.Run(fmt.Sprint(typ.name, step), func(t *testing.T) {
				alone(t, typ, func(t *testing.T, w *world) {
					holder, a, b := w.process(), w.process(), w.process()
					held := holder.held()
					first := a.wait(10 * time.Millisecond)
					time.Sleep(time.Second)
					w.redis[0].StepClock(step)
					second := b.wait(10 * time.Millisecond)
					time.Sleep(time.Second)
					_ = held.Unlock(background)
					x, y := <-first, <-second
					assert.True(t, x.Before(y), "the second overtakes")
					time.Sleep(time.Second)
					require.True(t, w.free())
				})
			})
		}
	}
}

// Readers and a writer queue behind a holder whose lease ends. How the clock steps.
func TestRWQueuesAfterAClockStep(t *testing.T) {
	for _, first := range []*lockType{reader, writer} {
		for _, step := range []time.Duration{-6 * time.Second, 6 * time.Second, -time.Hour, time.Hour} {
			t.Run(fmt.Sprint(first.name, step), func(t *testing.T) {
				alone(t, writer, func(t *testing.T, w *world) {
					holder, a, b, c := w.process(), w.process(), w.process(), w.process()
					held := first.make(holder.s)
					require.NoError(t, held.Lock(background))
					wl, rl, w2 := writer.make(a.s), reader.make(b.s), writer.make(c.s)
					wgot := locking(wl)
					rgot := locking(rl)
					w2got := locking(w2)
					token := int64(0)
					w.redis[0].StepClock(step)
					time.Sleep(time.Second)
					_ = held.Unlock(background)
					start := time.Now()
					for range 3 {
						select {
						case err := <-wgot:
							require.NoError(t, err)
							require.Greater(t, wl.(interface{ FencingToken() int64 }).FencingToken(), token)
							token = wl.(interface{ FencingToken() int64 }).FencingToken()
							require.Empty(t, rgot)
							require.Empty(t, w2got)
							require.NoError(t, wl.Unlock(background))
						case err := <-w2got:
							require.NoError(t, err)
							require.Greater(t, w2.(interface{ FencingToken() int64 }).FencingToken(), token)
							token = w2.(interface{ FencingToken() int64 }).FencingToken()
							require.Empty(t, rgot)
							require.NoError(t, w2.Unlock(background))
						case err := <-rgot:
							require.NoError(t, err)
							require.Empty(t, wgot)
							require.NoError(t, rl.Unlock(background))
						}
						require.Less(t, time.Since(start), 3*time.Second)
					}
					time.Sleep(20 * time.Second)
					require.True(t, w.free())
					require.False(t, w.has("relock_rwqueue:{a}", "relock_rdqueue:{a}"))
				})
			})
		}
	}
}
