package wire

import (
	"fmt"
	"strconv"
	"strings"
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
				Read:  {"redisson_rwlock:", []string{"0"}, []string{timeout, "relock_readers:" + tag}},
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
					require.Equal(t, fmt.Sprint(token), r.text("GET", fence))
					require.True(t, token >= 1<<50 && token < 1<<53, "token %d is not of our time", token)
					require.InDelta(t, time.Minute, r.pttl(fence), float64(30*time.Second))
				}
				r.end(l)
				var messages []string
				for _, m := range c.messages {
					messages = append(messages, c.channel+tag+" "+m)
				}
				r.mustMessages(next, c.channel+tag, messages...)
				r.must("DEL", "relock_yield:"+tag) // somebody listened
				if kind == Read {
					require.Empty(t, r.keys())
				} else {
					require.Equal(t, []string{fence}, r.keys())
				}
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
			require.LessOrEqual(t, r.pttl(fenceKey), fence, "a token was issued again")
			if k != Read {
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
				r.end(other) // its place
				r.gone(other)
				r.held(l)
				r.mustNear("the lock", r.pttl("a"), l.Length)

				r.must("PERSIST", "a")
				r.refused(other, -time.Millisecond, -time.Millisecond)
				r.end(other)
				r.take(l)
				r.mustNear("its holder asked again", r.pttl("a"), l.Length)
				r.end(l)
				r.gone(l)
				r.must("DEL", yieldKey)
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
		token, ttl, err := r.try(r.lease(Plain, 2), false)
		require.NoError(t, err)
		require.True(t, token > 0 || ttl >= 0 && ttl <= time.Millisecond, "%d, %v", token, ttl)
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
		next := r.listen(plainChannel, rwChannel, sessionChannel, PrefixSession+session("j"))
		for what, c := range map[string]struct {
			before func(r *rig)
			lost   []string
			wakes  []string
			left   map[string]string
		}{
			"a free lock":        {nothing, nil, nil, nil},
			"a Mutex":            {has(Plain, 3), []string{"s:3"}, wakesPlain, nil},
			"a writer":           {runs("HSET", "a", "mode", "write", id("j:9")+":write", "1"), []string{"j:9"}, wakesRW, nil},
			"a writer who reads": {all(has(Write, 2), under(3, 2)), []string{"s:2", "s:3"}, wakesRW, nil},
			"readers":            {all(redisson, has(Read, 1)), []string{"s:1", "j:1"}, wakesRW, nil},
			"with a field added": {all(has(Plain, 3), added), []string{"s:3"}, wakesPlain, map[string]string{"status": "paid"}},
		} {
			r.must("FLUSHALL")
			c.before(r)
			last, _ := strconv.ParseInt(r.text("GET", fenceKey), 10, 64)
			was, err := r.Force(ctx0, "a")
			require.NoError(t, err, what)
			require.Equal(t, len(c.lost) > 0, was, what)
			var want, got []string
			for _, short := range c.lost {
				want = append(want, PrefixSession+id(short)[:36]+" lost "+id(short)+" a")
				got = append(got, next())
			}
			require.ElementsMatch(t, want, got, what)
			r.mustMessages(next, plainChannel, c.wakes...)
			if c.left != nil {
				require.Equal(t, c.left, r.hash("a"))
				continue
			}
			r.must("DEL", yieldKey)
			require.Greater(t, r.take(r.lease(Plain, 9)), last)
			r.end(r.lease(Plain, 9))
			require.Equal(t, plainChannel+" 0", next())
		}
	})
}

// A key of another type beside the lock made an error of it, after the lock was open.
func TestForceReportsWhatItHasOpened(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, k := range []Kind{Fair, Write} {
			held, waits := r.lease(k, 1), of("t", r.lease(k, 2))
			for damaged, hears := range map[string]string{"": "granted ", held.Keys.fence: "look ", held.Keys.aux: ""} {
				r.must("FLUSHALL")
				heard := r.listen(PrefixSession + session("t"))
				r.take(held)
				r.queues(waits)
				if damaged != "" {
					r.must("DEL", damaged)
					r.must("HSET", damaged, "no", "token")
				}
				was, err := r.Force(ctx0, "a")
				require.NoError(t, err, "kind %d, damaged %s", k, damaged)
				require.True(t, was)
				require.NotContains(t, r.hash("a"), held.ID, "kind %d, damaged %s", k, damaged)
				if hears != "" { // else nobody knows who waits
					message := heard()
					require.True(t, strings.Contains(message, hears+waits.ID), "damaged %s: %s", damaged, message)
				}
			}
		}
	})
}
