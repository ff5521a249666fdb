package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lock is stored and its release published as Redisson does it, whatever the lock is called.
func TestAcquireWritesWhatRedissonReads(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for name, tag := range map[string]string{
			"orders": "{orders}", "{o}rders": "{o}rders", "or:{d}:{e}s": "or:{d}:{e}s", "a b\r\n\x00": "{a b\r\n\x00}",
		} {
			fence, timeout := "relock_fence:"+tag, tag+":"+id("s:7")+":rwlock_timeout:1"
			for kind, c := range map[Kind]struct {
				channel  string
				messages []string
				keys     []string // beside the lock
			}{
				Plain: {"redisson_lock__channel:", []string{"0"}, []string{fence}},
				Write: {"redisson_rwlock:", []string{"1", "00"}, []string{fence}},
				Read:  {"redisson_rwlock:", []string{"0"}, []string{timeout, fence}},
			} {
				r.must("FLUSHALL")
				r.name = name
				next := r.listen(c.channel + tag)
				l := r.lease(kind, 7)
				token := r.take(l)
				r.held(l)
				r.mustNear("the lock", r.pttl(name), l.Length)
				require.ElementsMatch(t, append([]string{name}, c.keys...), r.keys())
				if kind == Read {
					require.Equal(t, "1", r.text("GET", timeout))
					r.mustNear("the hold", r.pttl(timeout), l.Length)
				} else {
					require.Equal(t, fmt.Sprint(token, " ", l.ID), r.text("GET", fence))
					require.True(t, token >= 1<<50 && token < 1<<53, "token %d is not of our time", token)
					require.InDelta(t, l.Length+time.Minute, r.pttl(fence), float64(10*time.Second))
				}
				r.end(l)
				var messages []string
				for _, m := range c.messages {
					messages = append(messages, c.channel+tag+" "+m)
				}
				r.mustMessages(next, c.channel+tag, messages...)
				// For somebody listened: the queue has the entry of Redisson, and nothing else.
				require.Equal(t, []string{fence, l.Keys.queue}, r.keys())
				require.Equal(t, []string{"redisson"}, r.texts("ZRANGE", l.Keys.queue, "0", "-1"))
			}
		}
	})
}

// The holder that asks again has its lease started again, and the same token, or a greater one if that is lost.
func TestAcquireSentAgainStartsTheLeaseAgain(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.goesOn()
		for _, k := range kinds {
			r.must("FLUSHALL")
			l := r.lease(k, 1)
			token, leases := r.take(l), []string{"a"}
			if k == Read {
				leases = append(leases, l.Keys.timeout(l.ID))
			}
			for _, key := range leases {
				r.must("PEXPIRE", key, "15000")
			}
			fence := r.pttl(fenceKey)
			require.Equal(t, token, r.take(l))
			r.held(l)
			for _, key := range leases {
				r.mustNear(key, r.pttl(key), l.Length)
				require.Greater(t, r.pttl(key), 15*time.Second)
			}
			if k == Read {
				require.LessOrEqual(t, r.pttl(fenceKey), fence)
			} else {
				require.InDelta(t, l.Length+time.Minute, r.pttl(fenceKey), float64(time.Second))
				r.must("DEL", fenceKey)
				require.Greater(t, r.take(l), token)
			}
		}
	})
}

// Whatever kind of lock has the key, all others wait for as long as it lives, and their releases end nothing.
func TestHeldLockIsTakenWhileItLives(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, holder := range kinds {
			for _, k := range kinds {
				if holder == Read && k == Read {
					continue
				}
				r.must("FLUSHALL")
				l, other := r.lease(holder, 1), r.lease(k, 2)
				r.take(l)
				r.refused(other, 20*time.Second, l.Length)
				r.end(other) // its entry
				r.gone(other)
				r.held(l)
				r.mustNear("the lock", r.pttl("a"), l.Length)

				r.must("PERSIST", "a")
				r.refused(other, -time.Millisecond, -time.Millisecond) // the holder has no expiry
				r.end(other)
				r.take(l)
				if holder != Read { // others may read
					r.mustNear("its holder asked again", r.pttl("a"), l.Length)
				}
				r.end(l)
				r.gone(l)
				r.take(other)
				r.gone(l)
				r.held(other)
			}
		}
	})
}

// In the last millisecond of a lease the lock is taken or free, and has one holder.
func TestLockThatEndsHasOneHolder(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.take(r.lease(Plain, 1))
		r.must("PEXPIRE", "a", "1")
		got := r.tries(r.lease(Plain, 2))
		require.True(t, got.Granted || got.Wait >= 0 && got.Wait <= time.Millisecond, "%+v", got)
		require.LessOrEqual(t, len(r.hash("a")), 1)
	})
}

func TestReleaseAllAnswersForEach(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		var ls []*Ref
		for i := range 50 {
			l := newLease(Plain, fmt.Sprint("lock", i), i)
			ls = append(ls, l)
			switch i % 3 {
			case 0:
				r.take(l)
			case 1:
				r.must("SET", l.Keys.Name, "no lock")
			}
		}
		told, errs := r.ReleaseAll(ctx0, ls)
		for i := range ls {
			if i%3 == 1 {
				require.ErrorContains(t, errs[i], "WRONGTYPE")
			} else {
				require.NoError(t, errs[i])
				require.EqualValues(t, -(i % 3 / 2), told[i], i)
			}
		}
		told, errs = r.ReleaseAll(ctx0, nil)
		require.Empty(t, told)
		require.Empty(t, errs)
	})
}

// The sessions of all holders are told, and waiters of Redisson; tokens go on.
func TestForceOpensNotifiesAndWakes(t *testing.T) {
	wakesPlain, wakesRW := []string{plainChannel + " 0"}, []string{rwChannel + " 1", rwChannel + " 00"}
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.listen(plainChannel, rwChannel, sessionChannel, PrefixSession+redissonID[:36])
		for what, c := range map[string]struct {
			before func(r *rig)
			lost   []string
			wakes  []string
		}{
			"a free lock":        {nothing, nil, nil},
			"a Mutex":            {has(Plain, 3), []string{id("s:3")}, wakesPlain},
			"a writer":           {redissonWrites, []string{redissonID}, wakesRW},
			"a writer who reads": {all(has(Write, 2), under(3, 2)), []string{id("s:2"), id("s:3")}, wakesRW},
			"readers":            {all(has(Read, 1), redissonReads), []string{id("s:1"), redissonID}, wakesRW},
		} {
			r.must("FLUSHALL")
			c.before(r)
			var last int64
			if r.int("EXISTS", fenceKey) == 1 {
				last = r.lastToken()
			}
			was, err := r.Force(ctx0, "a")
			require.NoError(t, err, what)
			require.Equal(t, len(c.lost) > 0, was, what)
			var want, got []string
			for _, id := range c.lost {
				want, got = append(want, PrefixSession+id[:36]+" lost "+id+" a"), append(got, next())
			}
			require.ElementsMatch(t, want, got, what)
			r.mustMessages(next, plainChannel, c.wakes...)
			r.must("DEL", plainQueue)
			require.Greater(t, r.take(r.lease(Plain, 9)), last)
			r.end(r.lease(Plain, 9))
			require.Equal(t, plainChannel+" 0", next())
		}
	})
}

// The first waiter of an opened lock polls, and gets it. A key of another type beside the lock does not make an error of
// a lock that is open.
func TestForceReportsWhatItHasOpened(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		heard := r.present("t")
		for _, k := range []Kind{Fair, Write} {
			held, waits := r.lease(k, 1), of("t", r.lease(k, 2))
			for _, damaged := range []string{"", held.Keys.fence, held.Keys.queue} {
				r.must("FLUSHALL")
				r.take(held)
				r.queues(waits)
				if damaged != "" {
					r.must("DEL", damaged)
					r.must("HSET", damaged, "no", "token")
				}
				was, err := r.Force(ctx0, "a")
				require.NotContains(t, r.hash("a"), held.ID, "kind %d, damaged %s", k, damaged)
				require.NoError(t, err, "kind %d, damaged %s", k, damaged)
				require.True(t, was)
				switch { // else nobody knows who waits
				case k == Fair && damaged == "":
					require.Contains(t, heard(), "granted "+waits.ID)
				case damaged != held.Keys.queue:
					require.Equal(t, polled(waits), heard())
				}
			}
		}
	})
}
