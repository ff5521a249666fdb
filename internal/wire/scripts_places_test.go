package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// comes makes sessions present.
func (r *rig) comes(shorts ...string) {
	r.t.Helper()
	for _, short := range shorts {
		r.listen(PrefixSession + session(short))
	}
}

// of is a waiter of a FairMutex, written as the session's short name and a number.
func (r *rig) of(short string) *Ref {
	l := r.lease(Fair, 0)
	l.ID = id(short)
	return l
}

// enters has these queue, and the first take the lock if it is free.
func (r *rig) enters(shorts ...string) {
	r.t.Helper()
	for _, short := range shorts {
		_, _, err := r.try(r.of(short), true)
		require.NoError(r.t, err)
	}
}

// looked has these look, and returns whether the first has the lock.
func (r *rig) looked(shorts ...string) bool {
	r.t.Helper()
	var ls []*Ref
	for _, short := range shorts {
		ls = append(ls, r.of(short))
	}
	return r.look(ls...)[0] > 0
}

// passes ends the hold and checks who has the lock then, and who is in the queue.
func (r *rig) passes(from, to string, places ...string) {
	r.t.Helper()
	r.end(r.of(from))
	r.mustHave(to, places...)
}

// mustHave checks who has the lock, and the places in order of arrival: "-a:1" stands back, and "+a:1" comes next
// though its session hears nothing.
func (r *rig) mustHave(holder string, places ...string) {
	r.t.Helper()
	if holder == "" {
		r.held()
	} else {
		r.held(r.of(holder))
	}
	m := r.must("ZRANGE", plainQueue, "0", "-1", "WITHSCORES")
	pairs, err := m.AsZScores()
	require.NoError(r.t, err)
	all := map[bool][]string{} // by whether they stand back
	for _, p := range pairs {
		mark := ""
		if p.Score < 0 {
			mark = "-"
		} else if p.Score < 1 {
			mark = "+"
		}
		all[p.Score < 0] = append(all[p.Score < 0], mark+p.Member)
	}
	slices.Reverse(all[true]) // their scores are below 0
	want := map[bool][]string{}
	for _, p := range places {
		short := strings.TrimLeft(p, "+-")
		back := p[0] == '-'
		want[back] = append(want[back], p[:len(p)-len(short)]+id(short))
	}
	require.Equal(r.t, want, all)
}

// age has places wait for a minute, without a look.
func (r *rig) age(shorts ...string) {
	r.t.Helper()
	for _, short := range shorts {
		r.must("ZINCRBY", plainQueue, fmt.Sprint(-time.Minute.Microseconds()), id(short))
	}
}

func TestTheAbsentStandBackUntilTheyLook(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.comes("b")
		r.enters("h:1", "a:1", "b:1", "a:2", "b:2", "b:3")
		r.passes("h:1", "b:1", "-a:1", "a:2", "b:2", "b:3")
		r.passes("b:1", "b:2", "-a:1", "-a:2", "b:3")
		require.Positive(t, r.pttl(plainQueue))
		r.comes("a")
		r.looked("a:1")
		r.passes("b:2", "a:1", "-a:2", "b:3")
		r.passes("a:1", "b:3", "-a:2")
		r.passes("b:3", "", "-a:2")
		// Nobody in the queue is there: whoever comes takes the lock, and they keep their places.
		for n := range 3 {
			c := fmt.Sprint("c:", n)
			r.enters(c)
			r.passes(c, "", "-a:2")
		}
	})
}

func TestTheDeafWhoLookComeNext(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.comes("b")
		r.enters("h:1", "a:2", "a:1", "b:1", "b:2")
		r.passes("h:1", "b:1", "-a:2", "-a:1", "b:2")
		r.looked("a:1", "a:2")
		r.mustHave("b:1", "+a:2", "+a:1", "b:2")
		r.passes("b:1", "a:2", "+a:1", "b:2")
		require.True(t, r.looked("a:2"), "the look has not found the grant")
		r.mustHave("a:2", "+a:1", "b:2")
		r.mustNear("the lease", r.pttl("a"), r.of("a:2").Length)
	})
}

// After many lapses its score is next to 0: what the look replies is no token then, unless it has the lock.
func TestDeafPlaceAfterManyLapsesIsToldTheTruth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.must("ZADD", plainQueue, "-1e-310", id("a:1"))
	if r.looked("a:1") {
		r.held(r.of("a:1"))
	}
}

// Whoever finds the lock free passes the places of those who have not looked lately. The others keep theirs,
// whether they come at once or take longer.
func TestTheSilentStandBackFromFreeLocks(t *testing.T) {
	for what, find := range map[string]func(r *rig){
		"by an acquisition": func(r *rig) { r.enters("d:1") },
		"by a try":          func(r *rig) { require.Equal(r.t, "taken", tries(Fair, 1)(r)) },
		"by a look":         func(r *rig) { r.looked("e:1") },
	} {
		t.Run(what, func(t *testing.T) {
			onRigs(t, func(t *testing.T, r *rig) {
				r.comes("a", "b", "c", "e")
				r.enters("h:1", "a:0", "a:1", "a:2", "c:1", "b:1", "e:1") // that of b stands still
				r.passes("h:1", "a:0", "a:1", "a:2", "c:1", "b:1", "e:1")
				r.age("c:1", "a:1", "a:2", "b:1")
				r.looked("c:1")
				r.must("DEL", "a") // the claim lapses
				find(r)
				r.held(r.of("c:1"))
				require.EqualValues(t, 3, r.int("ZCOUNT", plainQueue, "-inf", "(0"))
				r.looked("a:1", "a:2") // it goes on
				places := []string{"a:2", "-b:1", "e:1"}
				if what == "by an acquisition" {
					places = append(places, "d:1")
				}
				r.passes("c:1", "a:1", places...)
			})
		})
	}
}

// What says when sessions have looked is gone, or may not be read or written, or the server's clock has stepped: nobody
// is passed for good, and one has the lock. A user without the right to write it never got a free lock: the look could
// not be recorded, found that its session was not seen, and had itself stand back.
func TestLockIsFreeWhileNobodyCountsAsSilent(t *testing.T) {
	rights := []string{"ACL", "SETUSER", "default", "resetkeys", "~a", "~relock_fence:*", "~relock_queue:*"}
	for what, change := range map[string]func(r *rig){
		"gone":      func(r *rig) { r.must("DEL", rwSeen) },
		"damaged":   func(r *rig) { r.must("SET", rwSeen, "x") },
		"forbidden": func(r *rig) { r.must(rights...) },
		"read alone": func(r *rig) {
			r.age("w:1", "a:1")
			if r.Do(append(rights, "%R~relock_seen:*")...).Error() != nil {
				r.must(rights...) // Redis 6.2 knows no right to read alone
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.comes("a", "b")
			r.enters("h:1", "w:1", "a:1", "b:1")
			change(r)
			r.must("DEL", "a")
			require.True(t, r.looked("a:1"))
			require.False(t, r.looked("b:1"))
		})
	}
}

// A process that stands still costs one claim, however many of its waiters there are, also if the first to find its
// lapsed claim is a waiter of Redisson's.
func TestFrozenWaitersCostOneClaimBesideRedisson(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.comes("a", "b")
		r.enters("h:1", "a:0", "a:1", "a:2", "a:3", "a:4", "b:1")
		r.end(r.of("h:1"))
		r.age("a:1", "a:2", "a:3", "a:4") // it has stood still for a minute
		lapsed := 0
		for ; lapsed < 5 && r.hash("a")[id("b:1")] == ""; lapsed++ {
			r.must("DEL", "a") // the claim lapses,
			redissonHas(r)     // and Redisson comes first
			r.looked("b:1")
			r.must("DEL", "a") // it releases
			r.looked("b:1")
		}
		require.LessOrEqual(t, lapsed, 1, "claims of a session that was not seen for a minute")
	})
}

func TestAForcedLockGoesToTheNext(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.comes("a", "c")
		r.enters("h:1", "a:1", "a:2", "c:1")
		r.passes("h:1", "a:1", "a:2", "c:1")
		r.take(r.of("a:1")) // it has the lock
		r.mustHave("a:1", "a:2", "c:1")
		r.passes("a:1", "a:2", "c:1")
		require.Equal(t, "opened true", forces(r))
		r.mustHave("c:1")
	})
}

func TestManyWhoAreAbsentArePassedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t) // miniredis may take longer than a client waits
	r.comes("b")
	r.enters("h:1")
	absentMany(r)
	r.enters("b:1", "b:2")
	r.end(r.of("h:1"))
	require.EqualValues(t, 10_000, r.int("ZCOUNT", plainQueue, "-inf", "(0"))
	require.EqualValues(t, 1, r.int("ZCOUNT", plainQueue, "(0", "+inf"))
	r.end(r.of("b:1"))
	r.held(r.of("b:2"))
}

// Who asks is there, although the server sees no subscription of it: those of one session
// that look get a free lock in their order.
func TestWaitersThatProbeKeepTheirOrder(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.enters("h:1", "a:2", "a:1")
		r.passes("h:1", "", "-a:2", "-a:1")
		require.False(t, r.looked("a:1", "a:2"))
		r.mustHave("a:2", "+a:1")
	})
}

// A release grants the lock for a claim, whatever is left of the lease before. A contender with a lease below 5 s gets
// it for no longer than that.
func TestAClaimIsThatOfTheWinner(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present()
		for _, k := range []Kind{Plain, Fair, Write} {
			for _, length := range []time.Duration{time.Second, time.Minute} {
				r.must("FLUSHALL")
				h, l := r.lease(k, 1), r.lease(k, 2)
				l.Length, l.GrantFor = length, GrantOf(length)
				r.take(h)
				r.queues(l)
				r.end(h)
				r.held(l)
				r.mustNear("the claim", r.pttl("a"), min(length, GrantMost))
				r.end(l)
				r.mustKeys()
			}
		}
	})
}
