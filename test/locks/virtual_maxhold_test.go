package locks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// holdBounds are shorter than a lease, just longer, and much longer.
var holdBounds = []time.Duration{500 * time.Millisecond, 5 * time.Second, 31 * time.Second, 2 * time.Minute}

// A stuck hold is lost when WithMaxHold says, not up to a lease later, and others get in then.
func TestMaxHoldEndsTheHoldOnTime(t *testing.T) {
	for _, most := range holdBounds {
		t.Run(most.String(), func(t *testing.T) {
			eachInBubble(t, func(t *testing.T, k lockType) {
				m := virtualServer(t)
				var lost []error
				s, other := startVirtual(t, m, relock.WithObserver(lossOf{on: &lost})), startVirtual(t, m)
				l := k.of(s.Session, relock.WithMaxHold(most))
				owner := s.NewContext(kit.Background)
				start := time.Now()
				kit.Lock(t, owner, l)
				time.Sleep(most / 2)
				kit.Lock(t, owner, l) // which does not prolong it
				got := kit.Async(func() error { return k.opposite(other.Session).Lock(kit.Background) })
				lostBy(t, l, most)
				require.LessOrEqual(t, time.Since(start), most)
				require.Greater(t, time.Since(start), most-most/100-100*time.Millisecond)
				for range 2 {
					require.ErrorIs(t, l.Unlock(owner), relock.ErrLost)
				}
				require.NoError(t, <-got)
				require.LessOrEqual(t, time.Since(start), most+k.slow())
				require.Contains(t, fmt.Sprint(lost), "WithMaxHold")
			})
		})
	}
}

// lossOf records why holds were lost.
type lossOf struct {
	relock.NopObserver
	on *[]error
}

func (o lossOf) Lost(e relock.LostEvent) { *o.on = append(*o.on, e.Cause) }

// A process that dies holds the lock no longer than WithMaxHold either, whenever it dies: no lease
// in Redis reaches further.
func TestMaxHoldBoundsADeadProcess(t *testing.T) {
	for _, most := range holdBounds {
		for _, dies := range []int{1, 50, 95} { // percent of it
			t.Run(fmt.Sprintf("%v at %d%%", most, dies), func(t *testing.T) {
				eachInBubble(t, func(t *testing.T, k lockType) {
					if k.group() {
						return // its other member has no bound
					}
					m := virtualServer(t)
					s, other := startVirtual(t, m), startVirtual(t, m)
					l := k.of(s.Session, relock.WithMaxHold(most))
					start := time.Now()
					kit.Lock(t, kit.Background, l)
					for time.Since(start) < most*time.Duration(dies)/100 {
						time.Sleep(most / 100)
						require.LessOrEqual(t, time.Since(start)+m.TTL("lock"), most, "it reaches beyond the end of the hold")
					}
					s.net.die()
					require.NoError(t, k.opposite(other.Session).Lock(kit.Background))
					require.LessOrEqual(t, time.Since(start), most+k.slow())
				})
			})
		}
	}
}

// What a Redlock takes again on a server that has lost its data does not outlast the hold.
func TestMaxHoldBoundsWhatARedlockRepairs(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		const most = 50 * time.Second
		var sessions []*relock.Session
		servers := []*miniredis.Miniredis{}
		for range 3 {
			m := virtualServer(t)
			s := startVirtual(t, m)
			sessions, servers = append(sessions, s.Session), append(servers, m)
		}
		l := relock.NewRedlock(sessions, "lock", relock.WithMaxHold(most))
		kit.Lock(t, kit.Background, l)
		start := time.Now()
		for i := range 45 {
			time.Sleep(time.Second)
			if i%10 == 5 {
				servers[i/10%3].FlushAll()
			}
			for _, m := range servers {
				require.LessOrEqual(t, time.Since(start)+m.TTL("lock"), most)
			}
			require.NoError(t, l.Err())
		}
		for _, m := range servers {
			require.True(t, m.Exists("lock"), "it was not taken again")
		}
		lostBy(t, l, most)
		require.LessOrEqual(t, time.Since(start), most)
		require.Greater(t, time.Since(start), most-time.Second)
	})
}

// A FairMutex that was waited for is bounded from the grant, not from the call.
func TestMaxHoldOfAWaiterBeginsWithTheGrant(t *testing.T) {
	eachInBubble(t, func(t *testing.T, k lockType) {
		m := virtualServer(t)
		s, other := startVirtual(t, m), startVirtual(t, m)
		held := k.opposite(other.Session)
		kit.Lock(t, kit.Background, held)
		l := k.of(s.Session, relock.WithMaxHold(5*time.Second))
		got := kit.Async(func() error { return l.Lock(kit.Background) })
		time.Sleep(20 * time.Second)
		kit.Unlock(t, kit.Background, held)
		require.NoError(t, <-got)
		start := time.Now()
		lostBy(t, l, 10*time.Second)
		require.InDelta(t, 5*time.Second, time.Since(start), float64(100*time.Millisecond))
	})
}
