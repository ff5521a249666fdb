package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

const countUp = `return redis.call('incrby', KEYS[1], ARGV[1])`

func countIn(h *relock.Hold) (int64, error) {
	return h.Eval(background, countUp, []string{"{a}:count"}, []string{"2"}).AsInt64()
}

// A script runs under the hold, and not after its end.
func TestEvalUnderAHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		h, err := p.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		n, err := countIn(h)
		if w.typ.name == "reader" || w.typ.redis > 1 || len(w.typ.names) > 1 {
			require.ErrorIs(t, err, relock.ErrOption)
			for i, m := range h.Members() {
				n, err := countIn(m)
				require.NoError(t, err)
				require.EqualValues(t, 2*i+2, n)
			}
			require.NoError(t, h.Unlock(background))
			return
		}
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
		for range 3 { // by its digest
			_, err = countIn(h)
			require.NoError(t, err)
		}
		require.True(t, rueidis.IsRedisNil(h.Eval(background, "return false", nil, nil).Error()))
		err = h.Eval(background, "local x = 1\nreturn redis.error_reply('MINE ' .. #KEYS .. #ARGV)", []string{"{a}:x"}, nil).Error()
		_, redis := rueidis.IsRedisErr(err)
		require.True(t, redis, "%v", err)
		require.ErrorContains(t, err, "MINE 10")
		require.NoError(t, h.Err())

		canceled, cancel := context.WithCancel(background)
		cancel()
		err = h.Eval(canceled, countUp, []string{"{a}:count"}, []string{"2"}).Error()
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, h.Unlock(background))
		_, err = countIn(h)
		require.ErrorIs(t, err, relock.ErrNotHeld)
		require.ErrorIs(t, (*relock.Hold)(nil).Eval(background, countUp, nil, nil).Error(), relock.ErrNotHeld)
		w.counts(8)
	})
}

func (w *world) counter() (string, error) {
	c := w.redis[0].Client()
	return c.Do(background, c.B().Get().Key("{a}:count").Build()).ToString()
}

func (w *world) counts(n int) {
	w.t.Helper()
	text, err := w.counter()
	require.NoError(w.t, err)
	require.Equal(w.t, fmt.Sprint(n), text)
}

// The script of a holder whose lock is gone changes nothing, and tells of the loss.
func TestEvalTellsOfALoss(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if w.typ.name == "reader" || w.typ.redis > 1 || len(w.typ.names) > 1 {
			return
		}
		p, other := w.process(), w.process()
		for _, c := range []struct {
			cause error
			lose  func()
		}{
			{relock.ErrGone, func() { w.redis[0].Delete("a") }},
			{relock.ErrGone, func() {
				w.redis[0].Delete("a")
				require.NoError(t, other.lock().Lock(background))
			}},
			{relock.ErrForced, func() {
				ok, err := other.s[0].ForceUnlock(background, "a")
				require.NoError(t, err)
				require.True(t, ok)
				synctest.Wait()
			}},
		} {
			h, err := p.lock().(kit.Acquirer).Acquire(background)
			require.NoError(t, err)
			c.lose()
			_, err = countIn(h)
			require.ErrorIs(t, err, relock.ErrLost)
			require.ErrorIs(t, err, c.cause)
			require.ErrorIs(t, h.Err(), relock.ErrLost)
			require.ErrorIs(t, h.Unlock(background), relock.ErrLost)
			w.redis[0].Delete("a")
			_, err = w.counter()
			require.Error(t, err, "it has run")
			time.Sleep(time.Minute)
		}
	})
}

// While an answer is outstanding the hold is not passed on in the process, and not kept: the script
// may still run, under the id of the lease.
func TestLateEvalRunsUnderNoOtherHold(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			onKept(t, func(t *testing.T, w *world) {
				p := w.process()
				m := p.s[0].Mutex("a", relock.WithKeep(time.Hour))
				h, err := m.Acquire(background)
				require.NoError(t, err)
				p.delay(5 * time.Millisecond)
				ctx, cancel := context.WithTimeout(background, time.Millisecond)
				defer cancel()
				err = h.Eval(ctx, countUp, []string{"{a}:count"}, []string{"2"}).Error()
				require.ErrorIs(t, err, relock.ErrUnavailable)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				first := w.fields()
				next := make(chan *relock.Hold, 1)
				if waits {
					go func() {
						h, _ := m.Acquire(background)
						next <- h
					}()
					synctest.Wait()
				}
				require.NoError(t, h.Unlock(background))
				var again *relock.Hold
				if waits {
					again = <-next
				} else {
					require.True(t, w.free(), "it is kept")
					again, err = m.Acquire(background)
					require.NoError(t, err)
				}
				require.NotEqual(t, first, w.fields(), "the same lease")
				require.NoError(t, again.Unlock(background))
			})
		})
	}
}

// A holder that is cut off beyond its lease, and comes back while another one has the lock, changes
// nothing, whenever its script was sent.
func TestEvalOfALateHolder(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if w.typ.name == "reader" || w.typ.redis > 1 || len(w.typ.names) > 1 {
			return
		}
		late, next := w.process(), w.process()
		h, err := late.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		late.delay(lease / 2) // what it sends now arrives then, and is answered another half later
		for range 200 {
			go func() { _, _ = countIn(h) }()
			time.Sleep(lease / 100)
		}
		late.delay(0)
		other, err := next.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		before, err := countIn(other)
		require.NoError(t, err)
		time.Sleep(2 * lease)
		after, err := countIn(other)
		require.NoError(t, err)
		require.Equal(t, before+2, after, "somebody else's script has run")
		require.ErrorIs(t, h.Err(), relock.ErrLost)
		require.NoError(t, other.Unlock(background))
		_ = h.Unlock(background)
	})
}
