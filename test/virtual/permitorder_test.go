package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/relocktest"
)

// inTurn has a call of a session wait for the only permit, which it tells and keeps for a second.
func inTurn(order chan<- string, name string, s *relock.Session) {
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

// A release drops nobody's entries: the last token was issued to a session that is alive.
func TestSemaphoreDropsNoLiveSession(t *testing.T) {
	onSemaphore(t, func(t *testing.T, r *relocktest.Redis) {
		a, b, c := r.Session(), r.Session(), r.Session()
		sa, sb := a.Semaphore("sem", 2), b.Semaphore("sem", 2)
		require.NoError(t, sa.Lock(background))
		require.NoError(t, sb.Lock(background)) // the last token is b's
		order := make(chan string, 2)
		inTurn(order, "b", b)
		inTurn(order, "c", c)
		require.NoError(t, sb.Unlock(background))
		require.NoError(t, sa.Unlock(background))
		require.Equal(t, "b", <-order)
		require.Equal(t, "c", <-order)
		time.Sleep(2 * time.Second)
	})
}

// A permit of a fixed lease ends by itself, and costs its session no place.
func TestFixedPermitThatEndsCostsNoPlace(t *testing.T) {
	onSemaphore(t, func(t *testing.T, r *relocktest.Redis) {
		a, c := r.Session(), r.Session()
		memredis.Of(r, a).Delay(20 * time.Millisecond) // so that c polls first
		require.NoError(t, a.Semaphore("sem", 1, relock.WithFixedLease(3*time.Second)).Lock(background))
		order := make(chan string, 2)
		inTurn(order, "a", a)
		inTurn(order, "c", c)
		require.Equal(t, "a", <-order)
		require.Equal(t, "c", <-order)
		time.Sleep(2 * time.Second)
	})
}
