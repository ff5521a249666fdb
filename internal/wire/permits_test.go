package wire

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/stretchr/testify/require"
)

func permitCases() []scriptCase {
	const S = Semaphore
	third := all(full, wants(S, 3))
	return []scriptCase{
		{"permit", nothing, tokenless(tries(S, 1)), "granted", same},
		{"permit beside another", has(S, 2), tokenless(tries(S, 1)), "granted", same},
		{"permit of what is taken", full, tries(S, 3), "taken", same},
		{"queue for a permit", full, asks(S, 3), "taken", same},
		{"queue for a permit behind another", third, asks(S, 4), "taken", same},
		{"permit of one who is dead", all(full, lapsed(1)), tokenless(tries(S, 3)), "granted", same},
		{"permit of one who is dead, for whom another queues", all(third, lapsed(1)), tokenless(asks(S, 4)), "taken", same},
		{"permit of two who are dead, for whom another queues", all(third, lapsed(1), lapsed(2)), tokenless(asks(S, 4)), "granted", same},
		{"permit of one who is dead, for whom the absent queue",
			all(full, absent(S, 3), lapsed(1)), tokenless(tries(S, 4)), "granted", same},
		{"permit of one who is dead, for whom the silent queue", all(third, silentFirst, lapsed(1)), tokenless(tries(S, 4)), "granted", same},
		{"release a permit past the silent", all(third, silentFirst, lapsed(1)), ends(S, 2), "told 0", "told -1"},
		{"permit after one's place was given it", all(third, does(ends(S, 1))), tokenless(tries(S, 3)), "granted", same},
		{"permit of more, behind one who wants fewer", third, asksOf(9, 4), "taken", same},
		{"permit of more", full, asksOf(9, 4), "granted", same},
		{"release a permit", has(S, 1), ends(S, 1), "told 0", "told -1"},
		{"release one of two permits", full, ends(S, 1), "told 0", "told -1"},
		{"release a permit to the next", third, ends(S, 1), "told 0", "told -1"},
		{"release a permit past the absent", all(full, absent(S, 3), wants(S, 4)), ends(S, 1), "told 0", "told -1"},
		{"release a permit to the absent alone", all(has(S, 1), has(S, 2), absent(S, 3), does(ends(S, 2))), ends(S, 1), "told 0", "told -1"},
		{"release a permit and rest", full, rests(S, 1), "told 0", "told -1"},
		{"leave the queue for permits", third, ends(S, 3), "told 0", "told -1"},
		{"leave the queue for permits before one who wants more",
			all(full, wants(S, 3), func(r *rig) { require.Equal(r.t, "taken", asksOf(9, 4)(r)) }), ends(S, 3), "told 0", "told -1"},
		{"leave the queue for permits from behind", all(third, wants(S, 4)), ends(S, 4), "told 0", "told -1"},
		{"renew a permit", has(S, 1), renews(S, 1), "kept", same},
		{"renew a permit that is gone", has(S, 2), renews(S, 1), "gone", same},
		{"renew a permit that nobody has taken though its lease has ended", all(full, lapsed(1)), renews(S, 1), "kept", same},
		{"look for a permit", third, looks(S, 3), "taken", same},
		{"look for a permit whose message was lost", all(third, does(ends(S, 1))), looks(S, 3), "join", same},
		{"look for a permit of one who is dead", all(third, lapsed(1)), looks(S, 3), "join", same},
		{"look for a permit without a place", full, looks(S, 3), "lost", same},
		{"look for permits of what is no semaphore", all(third, del("a"), runs("SET", "a", "x")), looks(S, 3), "lost", same},
		{"inspect a semaphore", all(third, lapsed(1)), inspects, "waiters 1, fields 1", same},
		{"inspect a semaphore of the dead", all(has(S, 1), lapsed(1)), inspects, "waiters 0, fields 0", same},
		{"force a semaphore", full, forces, "opened true", "opened false"},
		{"force one permit", full, forcesFrom(2), "opened true", "opened false"},
		{"force a permit to the next", third, forcesFrom(2, 7), "opened true", "opened false"},
	}
}

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
				reply, _, err := r.try(l, false)
				require.NoError(t, err)
				require.Equal(t, len(held) < limit, reply > 0, "with %d holders", len(held))
				if reply > 0 {
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
			require.Regexp(t, fmt.Sprintf(`^%s granted %s \d{16}/%d 5000 a$`, sessionChannel, l.ID, slot), next())
			require.EqualValues(t, HasPermit, r.look(l)[0])
			r.mustNear("its lease", r.pttl("a"), l.Length)
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
			_, _, err := r.try(other, true)
			require.ErrorIs(t, err, lockerr.ErrNotLock)
			require.ErrorContains(t, err, "a Semaphore")
			require.Equal(t, []string{"a", fenceKey}, r.keys())
			r.end(permit)

			r.take(other)
			_, _, err = r.try(permit, true)
			require.ErrorIs(t, err, lockerr.ErrNotLock)
			require.ErrorContains(t, err, `the key "a" is not a semaphore`)
			require.True(t, r.Renew(ctx0, []*Ref{permit})[0].Gone)
			r.held(other)
			require.NotContains(t, r.keys(), plainQueue)
		}
	})
}

// Permits of the dead go to those that queue, a hundred in one script, whose next one then looks.
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
		next := r.present()
		for i := 0; i < 250; i += 100 {
			require.EqualValues(t, HasPermit, r.look(waiters[i])[0])
			for range min(99, 250-i-1) {
				require.Contains(t, next(), " granted ")
			}
			if i < 200 {
				require.Equal(t, sessionChannel+" look "+waiters[i+100].ID, next())
			}
		}
		slots, _ := r.slots()
		require.Len(t, slots, 250)
		require.Equal(t, 501, int(r.int("ZCARD", "a")))
	})
}
