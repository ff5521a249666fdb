package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A release that queues again, while the head of RFairLock's queue listens: it has its turn.
func TestAReleaseThatQueuesAgainSeesTheHeadOfRFairLock(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		const theirs = "7b1c5a52-5a0e-4c57-9b55-0d8f8d1a6c11:47"
		r.present("redisson_lock__channel:{a}:" + theirs)
		r.must("RPUSH", "redisson_lock_queue:{a}", theirs)
		l := r.lease(Plain, 1)
		r.take(l)
		for n := 2; n < 40; n++ {
			again := r.lease(Plain, n)
			_, err := r.Release(ctx0, l, again)
			require.NoError(t, err)
			if r.int("EXISTS", "a") == 0 {
				return
			}
			l = again
		}
		t.Fatal("40 releases, and none was left to Redisson")
	})
}

// The same beside the key that counts the releases until Redisson's turn: they count.
func TestAReleaseThatQueuesAgainCounts(t *testing.T) {
	for kind, channel := range map[Kind]string{Plain: "redisson_lock__channel:{a}", Write: rwChannel} {
		t.Run(channel, func(t *testing.T) {
			onRWRigs(t, func(t *testing.T, r *rwRig) {
				r.present(channel)
				l := r.lease(kind, 1)
				r.take(l)
				r.must("SET", rwYield, "ours 16 16 0", "PX", "2000")
				n := 0
				for r.int("EXISTS", "a") == 1 && n < 30 {
					n++
					again := r.lease(kind, n+1)
					_, err := r.Release(ctx0, l, again)
					require.NoError(t, err)
					l = again
				}
				require.Equal(t, 16, n, "releases until Redisson's turn: %s", r.text("GET", rwYield))
			})
		})
	}
}

// A place of garbage that is first in the queue.
func TestGarbageAtTheHeadWhenALockIsLeftToRedisson(t *testing.T) {
	for kind, names := range map[Kind][2]string{Plain: {"redisson_lock__channel:{a}", placesQueue}, Write: {rwChannel, rwQueue}} {
		for _, garbage := range []string{"", " x", "x", "x:y z"} {
			t.Run(fmt.Sprint(names[1], " ", garbage), func(t *testing.T) {
				onRWRigs(t, func(t *testing.T, r *rwRig) {
					r.present(names[0])
					l := r.lease(kind, 1)
					r.take(l)
					r.must("ZADD", names[1], "5", garbage)
					_, err := r.Release(ctx0, l, nil)
					assert.NoError(t, err)
					assert.NotContains(t, r.hash("a"), l.ID)
				})
			})
		}
	}
}

// Garbage kinds of the key, and types.
func TestReservationBesideADamagedKey(t *testing.T) {
	for _, text := range []string{"back", "back ", "back 99999999999999", "back -1", "back 1 0 0", "back 1e9", "\x00", "left 0 0 0", "ours 1 0 0",
		"hash", "wat 5"} {
		t.Run(text, func(t *testing.T) {
			onPlacesRigs(t, func(t *testing.T, r *placesRig) {
				if text == "hash" {
					r.must("HSET", rwYield, "a", "b")
				} else {
					r.must("SET", rwYield, text)
				}
				for n := range 12 {
					require.True(t, r.enters("t", n, false), "refused at %d: %s", n, strings.TrimSpace(r.text("TYPE", rwYield)))
					r.end(r.of("t", n))
				}
			})
		})
	}
}

// A stale first: it left, stood back, is garbage or again.
func TestStaleFirst(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		r.comes("b")
		r.enters("h", 1, false)
		r.must("ZADD", placesQueue, "1", "garbage", "2", session("b")+":x", "3", " ", "4", "")
		r.enters("a", 1, true)
		r.enters("b", 1, true)
		again := r.of("h", 2)
		_, err := r.Release(ctx0, r.of("h", 1), again)
		require.NoError(t, err)
		r.mustHave("b:1", "-a:1", "h:2")
	})
}

// The same after so many lapses, when the lock is free: what the look replies is no token.
func TestADeafPlaceAfterManyLapsesIsNotToldThatItHasTheLock(t *testing.T) {
	t.Parallel()
	r := &placesRig{&rwRig{NewRig(t), "a"}, nil}
	r.must("ZADD", placesQueue, "-1e-310", id("a:1"))
	if tokens := r.looksFor(r.of("a", 1)); tokens[0] > 0 {
		require.Contains(t, r.hash("a"), id("a:1"), "it is told that it has the lock, by token %d", tokens[0])
	}
}

// Garbage among many readers who are let in: the writer's hold ends.
func TestGarbageBehindAHundredReaders(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present()
		w := r.writer(1)
		r.take(w)
		for n := range 100 {
			r.must("ZADD", rwQueue, fmt.Sprint(4000000000000001+n), id(fmt.Sprint("s:", n+2)))
		}
		r.must("ZADD", rwQueue, "4000000000009999", " x")
		_, err := r.Release(ctx0, w, nil)
		assert.NoError(t, err)
		assert.NotContains(t, r.hash("a"), w.ID)
	})
}
