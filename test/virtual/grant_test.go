package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/internal/peek"
)

// The deadline of a lock that another released does not count on more than Redis grants, whenever the
// waiter has looked at the lock last.
func TestDeadlineOfALockThatWasWaitedFor(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.acquirer()
		p.delay(400 * time.Millisecond)
		for i := range 40 {
			holder := other.opposite()
			require.NoError(t, holder.Lock(background))
			time.AfterFunc(5*time.Second+time.Duration(i)*45*time.Millisecond, func() { _ = holder.Unlock(background) })
			require.NoError(t, l.Lock(background))
			at, held := l.Deadline()
			require.True(t, held)
			require.LessOrEqual(t, time.Until(at), w.ttl())
			require.NoError(t, l.Unlock(background))
			time.Sleep(time.Second)
		}
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

// The claim of a FairMutex counts from the waiter's last look, and is as long as another
// waiter's lease where that waiter found the lock free. A grant with hardly anything left was
// accepted, and lost before it could be renewed although nothing was wrong.
func TestFairGrantLastsUntilItIsRenewed(t *testing.T) {
	alone(t, fair, func(t *testing.T, w *world) {
		holder, far, near := w.process(), w.process(), w.process(relock.WithLease(time.Second))
		far.delay(20 * time.Millisecond)
		for held := time.Second; held < 3*time.Second; held += 23 * time.Millisecond {
			m := holder.s[0].Mutex("a") // whose release grants nothing: waiters look
			require.NoError(t, m.Lock(background))
			first := far.lock()
			locked := begin(background, first)
			time.Sleep(500 * time.Millisecond)
			ctx, cancel := context.WithCancel(background)
			begin(ctx, near.lock())
			time.Sleep(held)
			require.NoError(t, m.Unlock(background))
			require.NoError(t, <-locked)
			time.Sleep(2 * time.Second)
			require.NoError(t, first.Err(), "lost, granted after %v", held)
			cancel()
			synctest.Wait()
			require.NoError(t, first.Unlock(background))
			time.Sleep(time.Second)
		}
	})
}

// A waiter with a short lease is given the lock by a message alone: it looks so often that its
// claim is certain when that arrives.
func TestShortLeaseIsClaimedWithoutARoundTrip(t *testing.T) {
	alone(t, fair, func(t *testing.T, w *world) {
		holder, next := w.process(), w.process()
		l := next.lock(relock.WithLease(time.Second))
		for i := range 20 {
			held := holder.held() // whose lease would be no reason to look
			got := begin(background, l)
			time.Sleep(7*time.Second + time.Duration(i)*70*time.Millisecond)
			require.NoError(t, held.Unlock(background))
			heal := memredis.Of(w.redis[0], next.s[0]).Cut(memredis.Up) // what it has heard must do
			synctest.Wait()
			require.Len(t, got, 1)
			require.NoError(t, <-got)
			heal()
			require.NoError(t, l.Unlock(background))
		}
	})
}

// A session is far away beside its own leases or that of the lock. There is time to renew, and to answer its looks:
// else nobody tells it that it was granted the lock, or has lost its place.
func TestFarSessionKeepsAndGetsTheLock(t *testing.T) {
	for _, c := range []struct{ session, lock, oneWay time.Duration }{
		{50 * time.Millisecond, lease, 15 * time.Millisecond},
		{50 * time.Millisecond, lease, 40 * time.Millisecond},
		{50 * time.Millisecond, lease, 200 * time.Millisecond},
		{time.Second, time.Second, 200 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				single := w.typ.redis == 1 && len(w.typ.names) == 1
				if !single && c.lock != lease {
					return // several parts take longer
				}
				holder, far := w.process(), w.process(relock.WithLease(c.session))
				far.delay(c.oneWay)
				l := far.held(relock.WithLease(c.lock))
				time.Sleep(3 * lease)
				require.NoError(t, l.Err())
				require.NoError(t, l.Unlock(background))
				if !single {
					return
				}
				held := holder.opposite()
				require.NoError(t, held.Lock(background))
				far.networks(func(n *memredis.Process) { n.LoseMessage("granted ") })
				got := locking(l)
				start := time.Now()
				require.NoError(t, held.Unlock(background))
				require.NoError(t, <-got)
				require.LessOrEqual(t, time.Since(start), 3*claim)
				time.Sleep(10 * time.Second)
				require.NoError(t, l.Err())
			})
		})
	}
}

// The process stands still amid its round. Each part is certain then, but for less than the clocks of
// the deployments may have drifted.
func TestRedlockWhoseRoundTookTooLongIsNone(t *testing.T) {
	for left, want := range map[time.Duration]bool{
		lease/100 + 2*time.Millisecond + 1: true, lease/100 + 2*time.Millisecond: false,
	} {
		t.Run(left.String(), func(t *testing.T) {
			alone(t, redlock, func(t *testing.T, w *world) {
				p := w.process()
				const delay = 100 * time.Millisecond
				p.delay(delay)
				time.AfterFunc(delay, func() {
					for _, s := range p.s {
						peek.Session(s).Clock.Skip(lease - 2*delay - left)
					}
				})
				ok, err := p.lock().TryLock(background)
				require.Equal(t, want, ok)
				require.Equal(t, want, err == nil)
			})
		})
	}
}

// A call whose lease is too short for its round trips never has the lock. The others of its process
// get it.
func TestCallWhoseLeaseIsTooShortHoldsUpNobody(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		p.delay(8 * time.Millisecond)
		const short = 10 * time.Millisecond
		for _, o := range []relock.LockOption{relock.WithFixedLease(short), relock.WithMaxHold(short)} {
			for _, held := range []bool{false, true} {
				holder := other.opposite()
				if held {
					require.NoError(t, holder.Lock(background))
				}
				ctx, cancel := context.WithCancel(background)
				hopeless := begin(ctx, p.lock(o))
				time.Sleep(100 * time.Millisecond)
				patient := lockAndUnlock(p.lock())
				time.Sleep(100 * time.Millisecond)
				if held {
					require.NoError(t, holder.Unlock(background))
				}
				select {
				case err := <-patient:
					require.NoError(t, err)
				case <-time.After(time.Second):
					require.Fail(t, "the other call waits")
				}
				cancel()
				<-hopeless
				time.Sleep(time.Second)
			}
		}
	})
}
