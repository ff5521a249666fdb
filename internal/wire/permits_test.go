package wire

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/stretchr/testify/require"
)

// Whoever comes and goes, in whatever order, and dies: never more than the limit, and the lowest free slot for each.
func TestPermitsHaveTheLowestFreeSlots(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		seed := rand.Uint64()
		t.Log("seed", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		const limit = 40
		held := make(map[int]*Ref) // by slot
		for n := 1; n <= 1500; n++ {
			switch in := rnd.IntN(10); {
			case in < 6:
				l := r.lease(Semaphore, n)
				l.Permits = limit
				got := r.tries(l).Granted
				require.Equal(t, len(held) < limit, got, "with %d holders", len(held))
				if got {
					want := 0
					for held[want] != nil {
						want++
					}
					require.Equal(t, want, l.Slot)
					held[want] = l
				}
			case in < 9:
				for slot, l := range held { // any
					r.end(l)
					r.gone(l)
					delete(held, slot)
					break
				}
			default:
				for slot, l := range held {
					r.must("ZADD", "a", "XX", "1000000000001", l.ID)
					delete(held, slot)
					break
				}
			}
		}
		slots, permits := r.slots()
		require.Len(t, slots, len(held))
		require.Equal(t, limit, permits)
		for slot, l := range held {
			require.Equal(t, l.ID, slots[slot])
			r.renews(l)
		}
		for _, l := range held {
			r.end(l)
		}
		last := r.lease(Semaphore, 2000) // removes those whose lease has ended
		r.take(last)
		r.end(last)
		require.NotContains(t, r.keys(), "a")
	})
}

// Who is first gets what is free, and is told its slot. A newcomer does not overtake, and one who may have fewer holds up
// those behind.
func TestPermitsGoInOrderOfArrival(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.listen(sessionChannel)
		full(r)
		few, more := r.lease(Semaphore, 3), r.lease(Semaphore, 4)
		few.Permits, more.Permits = 1, 3
		r.queues(few, more)
		require.Equal(t, "taken", tries(Semaphore, 5)(r))
		r.end(r.lease(Semaphore, 2)) // one is left, which is one too many for few
		require.Equal(t, "taken", tries(Semaphore, 5)(r))
		r.end(r.lease(Semaphore, 1))
		slots, permits := r.slots()
		require.Equal(t, map[int]string{0: few.ID, 1: more.ID}, slots)
		require.Equal(t, 3, permits)
		for slot, l := range []*Ref{few, more} {
			require.Regexp(t, fmt.Sprintf(`^%s granted %s \d{16}/%d \+?5000 a$`, sessionChannel, l.ID, slot), next())
			require.True(t, r.polls(l).Granted)
			require.Equal(t, slot, l.Slot)
			require.LessOrEqual(t, r.pttl("a"), l.Length)
			token := r.take(l)
			require.Equal(t, slot, l.Slot)
			require.Greater(t, r.take(l), token)
		}
		r.end(few, more)
		require.NotContains(t, r.keys(), "a")
	})
}

// A name is that of a semaphore, or of a lock, until it is free: nothing of the other is changed.
func TestSemaphoreIsNoLock(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, k := range kinds {
			r.must("FLUSHALL")
			permit, other := r.lease(Semaphore, 1), r.lease(k, 2)
			r.take(permit)
			_, err := r.ask(other, Ask{Queue: true})
			require.ErrorIs(t, err, lockerr.ErrNotLock)
			require.ErrorContains(t, err, "a Semaphore")
			require.Equal(t, []string{"a", fenceKey}, r.keys())
			r.end(permit)

			r.take(other)
			_, err = r.ask(permit, Ask{Queue: true})
			require.ErrorIs(t, err, lockerr.ErrNotLock)
			require.ErrorContains(t, err, `the key "a" is not a semaphore`)
			require.True(t, r.Renew(ctx0, []*Ref{permit})[0].Gone)
			r.held(other)
			require.NotContains(t, r.keys(), plainQueue)
		}
	})
}

// Permits of the dead go to those that queue, a hundred in one script. Then the next waiter polls.
func TestPermitsOfTheDeadGoToThoseThatQueue(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		const n = 1150
		var waiters []*Ref
		for i := range n + 250 {
			l := r.lease(Semaphore, i)
			l.Permits = n
			if i < n {
				r.take(l)
			} else {
				r.queues(l)
				waiters = append(waiters, l)
			}
		}
		r.must("EVAL", `for _, id in ipairs(redis.call('zrange', KEYS[1], ARGV[1], -1)) do
			redis.call('zadd', KEYS[1], 'xx', '1000000000001', id)
		end`, "1", "a", fmt.Sprint(n+1))
		next := r.present("s")
		for i := 0; i < 250; i += 100 {
			require.True(t, r.polls(waiters[i]).Granted)
			for range min(99, 250-i-1) {
				require.Contains(t, next(), " granted ")
			}
			if i < 200 {
				require.Equal(t, polled(waiters[i+100]), next())
			}
		}
		slots, _ := r.slots()
		require.Len(t, slots, 250)
		require.Equal(t, 501, int(r.int("ZCARD", "a")))
	})
}
