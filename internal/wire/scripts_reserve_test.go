package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a probe replies must not be taken for a token, where a claim has lapsed and the user has no right to
// relock_yield.
func TestALapsedClaimWithoutTheRightToReserve(t *testing.T) {
	for _, k := range []Kind{Fair, Write} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			t.Parallel()
			r := &placesRig{&rwRig{NewRig(t), "a"}, nil}
			next := r.present()
			_ = next
			h, w, a, b := r.lease(k, 1), r.lease(k, 2), r.lease(k, 3), r.lease(k, 4)
			r.take(h)
			for _, l := range []*Ref{w, a, b} {
				_, _, err := r.Acquire(ctx0, l, Millis(l.Length), true)
				require.NoError(t, err)
			}
			r.end(h)
			require.Contains(t, r.hash("a"), w.ID)
			r.must("DEL", "a") // as the claim lapses
			r.must("ACL", "SETUSER", "default", "resetkeys", "~a", "~{a}*", "~relock_fence:*", "~relock_queue:*", "~relock_rwqueue:*",
				"~redisson_*", "~relock_seen:*", "~relock_readers:*")
			replies, errs := r.Probe(ctx0, []*Ref{a, b})
			has := r.hash("a")
			t.Log(replies, errs, has)
			for i, l := range []*Ref{a, b} {
				require.NoError(t, errs[i])
				if replies[i] > 0 {
					assert.Contains(t, has, l.ID, "it is told that it has the lock, by token %d", replies[i])
				}
			}
		})
	}
}

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

// The session of a place hears nothing; claims lapse again and again before its turn.
func TestADeafPlaceOutlivesManyLapses(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		r.enters("h", 1, false)
		r.enters("a", 1, true)
		for n := range 25 {
			r.must("DEL", "a", "relock_yield:{a}")
			r.must("ZADD", placesQueue, "0", id(fmt.Sprint("w:", n))) // whose claim has lapsed
			r.enters("t", n, false)                                   // a TryLock finds it
			_, errs := r.Probe(ctx0, []*Ref{r.of("a", 1)})
			require.NoError(t, errs[0])
			score := r.text("ZSCORE", placesQueue, id("a:1"))
			require.Positive(t, len(score), "lapse %d: its place is gone", n)
			require.NotEqual(t, "0", score, "lapse %d: it counts as granted", n)
		}
	})
}

// Two deaf places keep their order over a lapse.
func TestDeafPlacesKeepTheirOrder(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		r.enters("h", 1, false)
		r.enters("a", 1, true)
		r.enters("b", 1, true)
		lapse := func(n int) {
			r.must("DEL", "a", "relock_yield:{a}")
			r.must("ZADD", placesQueue, "0", id(fmt.Sprint("w:", n)))
			r.enters("t", n, false)
		}
		lapse(1)
		r.looksFor(r.of("b", 1)) // a takes longer
		lapse(2)
		r.looksFor(r.of("a", 1), r.of("b", 1))
		r.mustHave("", "+a:1", "+b:1")
	})
}

// After a lapse, who comes anew is behind all that come back, also if the server's clock has stepped back since
// they came.
func TestNewcomersAreBehindThoseThatStandBackAfterAStepOfTheClock(t *testing.T) {
	for _, back := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprint(back), func(t *testing.T) {
			onPlacesRigs(t, func(t *testing.T, r *placesRig) {
				r.comes("a")
				r.comes("c")
				r.enters("h", 1, false)
				ahead := time.Now().Add(back - time.Second).UnixMicro()
				r.must("ZADD", placesQueue, fmt.Sprint(ahead), id("a:1"), fmt.Sprint(ahead+1), id("a:2"))
				r.passes(r.of("h", 1), "a:1", "=a:1", "a:2")
				r.must("DEL", "a")
				r.enters("c", 1, true)
				r.mustHave("", "-a:2", "c:1")
				r.looksFor(r.of("a", 2))
				r.mustHave("", "a:2", "c:1")
			})
		})
	}
}

// The clock steps back by 0.9 s within the 10 ms: for how long is a free lock refused?
func TestAStepOfTheClockDoesNotProlongTheReservation(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		r.must("SET", rwYield, fmt.Sprintf("back %d 8 0", time.Now().Add(900*time.Millisecond).UnixMilli()), "PX", "2000")
		if q := r.of("a", 1); !r.enters("a", 1, true) {
			replies, errs := r.Probe(ctx0, []*Ref{q})
			require.NoError(t, errs[0])
			require.GreaterOrEqual(t, replies[0], int64(-12), "reserved for longer than 10 ms")
		}
	})
}

// Readers before writers: a lapse keeps who was put first, and what stands back in the queue is no turn of readers.
func TestReadersPutFirstStayFirstOverALapse(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		r.present()
		h, w1, w2, rd := r.writer(1), r.writer(2), r.writer(3), r.reader(4)
		r.take(h)
		for _, l := range []*Ref{w1, w2} {
			r.refused(l, 0, time.Minute)
		}
		r.refused(rd, 0, time.Minute)
		r.must("ZADD", rwQueue, "0", w1.ID, "1", rd.ID) // w1 was granted, rd put first
		r.must("DEL", "a")
		r.looksFor(0, w2, rd)
		r.must("DEL", rwYield)
		replies, _ := r.Probe(ctx0, []*Ref{w2, rd})
		t.Log(replies, r.hash("a"))
		require.Contains(t, r.hash("a"), rd.ID)
	})
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
		r.mustHave("b:1", "-a:1", "=b:1", "h:2")
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

// The prefetched count, a lapse and the way back where pub/sub is that of a cluster.
func TestLapseAndPrefetchInClusters(t *testing.T) {
	for _, mode := range []PubSub{Sharded, ClusterWide} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			t.Parallel()
			r := &rwRig{NewRig(t), "a"}
			r.PubSub = mode
			conn, put := r.Client.Dedicate()
			t.Cleanup(put)
			got := make(chan string, 10)
			conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { got <- m.Message }})
			if mode == Sharded {
				require.NoError(t, conn.Do(ctx0, conn.B().Ssubscribe().Channel("relock_grant:{a}:"+session("s")).Build()).Error())
			} else {
				require.NoError(t, conn.Do(ctx0, conn.B().Subscribe().Channel("relock_session:"+session("s")).Build()).Error())
			}
			h, gone, w, next := r.lease(Fair, 1), r.lease(Fair, 2), r.lease(Fair, 3), r.lease(Fair, 4)
			gone.ID = id("x:9")
			r.take(h)
			for _, l := range []*Ref{gone, w, next} {
				if l == gone && mode == ClusterWide {
					continue
				}
				_, _, err := r.Acquire(ctx0, l, Millis(l.Length), true)
				require.NoError(t, err)
			}
			_, err := r.Release(ctx0, h, nil)
			require.NoError(t, err)
			require.Contains(t, <-got, "granted "+w.ID)
			r.must("DEL", "a")
			try := r.lease(Fair, 5)
			token, _, err := r.Acquire(ctx0, try, Millis(try.Length), false)
			require.NoError(t, err)
			require.Zero(t, token, "reserved")
			require.Equal(t, "look "+next.ID, <-got)
			replies, _ := r.Probe(ctx0, []*Ref{next})
			require.Less(t, replies[0], int64(0))
			time.Sleep(60 * time.Millisecond)
			replies, _ = r.Probe(ctx0, []*Ref{next})
			require.Positive(t, replies[0])
			require.Contains(t, r.hash("a"), next.ID)
		})
	}
}
