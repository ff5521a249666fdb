package virtual_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// A waiter with a lease of 10 min finds its grant by a poll. The fence key must live a minute
// longer than the lease, so that tokens grow even if the server's clock steps back meanwhile.
func TestFenceOutlivesAGrantFoundByAPoll(t *testing.T) {
	for name, o := range map[string]relock.LockOption{
		"lease": relock.WithLease(10 * time.Minute), "fixed": relock.WithFixedLease(10 * time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			for i := range lockTypes {
				typ := &lockTypes[i]
				if typ.name == "reader" || len(typ.names) > 1 || typ.redis > 1 {
					continue
				}
				t.Run(typ.name, func(t *testing.T) {
					alone(t, typ, func(t *testing.T, w *world) {
						p, other := w.process(), w.process()
						held := p.held()
						l := other.acquirer(o)
						other.networks(func(n *memredis.Process) { n.LoseMessage("granted ") })
						got := begin(background, l)
						time.Sleep(time.Second)
						require.NoError(t, held.Unlock(background))
						require.NoError(t, <-got)
						token := l.Token()
						time.Sleep(100 * time.Second)
						w.redis[0].StepClock(-20 * time.Minute)
						require.NoError(t, l.Err())
						require.NoError(t, l.Unlock(background))
						next := p.taken()
						require.Greater(t, next.Token(), token)
					})
				})
			}
		})
	}
}

// The same with a minimum hold that is longer than the lease.
func TestFenceOutlivesAMinimumHold(t *testing.T) {
	for i := range lockTypes {
		typ := &lockTypes[i]
		if typ.name == "reader" || len(typ.names) > 1 || typ.redis > 1 {
			continue
		}
		t.Run(typ.name, func(t *testing.T) {
			alone(t, typ, func(t *testing.T, w *world) {
				p, other := w.process(), w.process()
				l := p.acquirer(relock.WithMinHold(10 * time.Minute))
				require.NoError(t, l.Lock(background))
				token := l.Token()
				require.NoError(t, l.Unlock(background))
				time.Sleep(5 * time.Minute)
				w.redis[0].StepClock(-4 * time.Minute)
				next := other.taken()
				require.Greater(t, next.Token(), token)
			})
		})
	}
}

// A fixed lease that was granted by a message that got lost ends by itself. The other waiters of that session, which
// is well, keep their order of arrival.
func TestFixedLeaseThatEndsCostsNobodyHisTurn(t *testing.T) {
	for _, lose := range []bool{false, true} {
		t.Run(fmt.Sprint(lose), func(t *testing.T) {
			alone(t, fair, func(t *testing.T, w *world) {
				p, a, b := w.process(), w.process(), w.process()
				held := p.held()
				if lose {
					a.networks(func(n *memredis.Process) { n.LoseMessage("granted ") })
				}
				a.delay(40 * time.Millisecond) // further than the margin of the lease
				one := a.lock(relock.WithFixedLease(8 * time.Second))
				got := begin(background, one) // and never unlocks
				time.Sleep(100 * time.Millisecond)
				time.Sleep(10 * time.Millisecond)
				order := make(chan string, 2)
				for name, of := range map[string]*process{"1 a": a, "2 b": b} {
					wait := 0 * time.Millisecond
					if of == b {
						wait = 300 * time.Millisecond
					}
					l := of.lock()
					go func() {
						time.Sleep(wait)
						_ = l.Lock(background)
						order <- name
						time.Sleep(50 * time.Millisecond)
						_ = l.Unlock(background)
					}()
				}
				time.Sleep(time.Second)
				require.NoError(t, held.Unlock(background))
				require.NoError(t, <-got)
				require.Equal(t, []string{"1 a", "2 b"}, []string{<-order, <-order})
				time.Sleep(time.Second)
			})
		})
	}
}
