package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/relocktest"
)

// A session that is alive and first in the queue has its turn, although its own permit ended before another's.
func TestSemaphoreDropsALiveSession(t *testing.T) {
	onSemaphore(t, func(t *testing.T, r *relocktest.Redis) {
		a, b, c := r.Session(), r.Session(), r.Session()
		sa, sb := a.Semaphore("sem", 2), b.Semaphore("sem", 2)
		require.NoError(t, sa.Lock(background))
		require.NoError(t, sb.Lock(background)) // the last token is b's
		order := make(chan string, 2)
		wait := func(name string, s *relock.Session) {
			go func() {
				l := s.Semaphore("sem", 1)
				if l.Lock(background) == nil {
					order <- name
					time.Sleep(time.Second)
					_ = l.Unlock(background)
				}
			}()
			time.Sleep(100 * time.Millisecond)
		}
		wait("b", b)
		wait("c", c)
		require.NoError(t, sb.Unlock(background))
		require.NoError(t, sa.Unlock(background))
		got := <-order + " " + <-order
		time.Sleep(2 * time.Second)
		require.Equal(t, "b c", got, "b was first")
	})
}

// A permit of a fixed lease ends by itself. Its session is alive.
func TestFixedPermitEndsAndItsSessionIsOvertaken(t *testing.T) {
	onSemaphore(t, func(t *testing.T, r *relocktest.Redis) {
		a, c := r.Session(), r.Session()
		memredis.Of(r, a).Delay(20 * time.Millisecond) // so that c polls first
		require.NoError(t, a.Semaphore("sem", 1, relock.WithFixedLease(3*time.Second)).Lock(background))
		order := make(chan string, 2)
		wait := func(name string, s *relock.Session) {
			go func() {
				l := s.Semaphore("sem", 1)
				if l.Lock(background) == nil {
					order <- name
					time.Sleep(time.Second)
					_ = l.Unlock(background)
				}
			}()
			time.Sleep(100 * time.Millisecond)
		}
		wait("a", a)
		wait("c", c)
		got := <-order + " " + <-order
		time.Sleep(2 * time.Second)
		require.Equal(t, "a c", got, "a was first")
	})
}
