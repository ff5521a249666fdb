package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// placesRig is waiters of one FairMutex, of a session each, which is there when the test
// subscribes its channel.
type placesRig struct {
	*rwRig
	conn rueidis.DedicatedClient
}

func onPlacesRigs(t *testing.T, f func(t *testing.T, r *placesRig)) {
	t.Helper()
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		conn, put := r.Client.Dedicate()
		t.Cleanup(put)
		conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
		f(t, &placesRig{r, conn})
	})
}

const placesQueue = "relock_queue:{a}"

// comes makes a session present.
func (r *placesRig) comes(short string) {
	r.t.Helper()
	if err := r.conn.Do(ctx0, r.conn.B().Subscribe().Channel("relock_session:"+session(short)).Build()).Error(); err != nil {
		r.t.Fatal(err)
	}
}

// of is the n-th waiter of a session.
func (r *placesRig) of(short string, n int) *Ref {
	l := r.lease(Fair, n)
	l.ID = id(fmt.Sprint(short, ":", n))
	return l
}

// enters takes the lock or queues for it, and reports whether it was taken.
func (r *placesRig) enters(short string, n int, queue bool) bool {
	r.t.Helper()
	l := r.of(short, n)
	token, _, err := r.Acquire(ctx0, l, Millis(l.Length), queue)
	if err != nil {
		r.t.Fatal(err)
	}
	return token > 0
}

// looksFor returns the token of a look, or 0.
func (r *placesRig) looksFor(ls ...*Ref) (tokens []int64) {
	r.t.Helper()
	replies, errs := r.Probe(ctx0, ls)
	for i, err := range errs {
		if err != nil {
			r.t.Fatal(err)
		}
		tokens = append(tokens, max(0, replies[i]))
	}
	return tokens
}

// passes ends the hold and checks who has the lock then, and who is in the queue.
func (r *placesRig) passes(from *Ref, to string, queue ...string) {
	r.t.Helper()
	r.end(from)
	r.mustHave(to, queue...)
}

// mustHave checks who has the lock, and the places: "-a:1" stands back, and "+a:1" comes next though its
// session hears nothing.
func (r *placesRig) mustHave(holder string, places ...string) {
	r.t.Helper()
	has := ""
	for field := range r.hash("a") {
		has += field
	}
	if holder != "" {
		holder = id(holder)
	}
	require.Equal(r.t, holder, has)
	m := r.must("ZRANGE", placesQueue, "0", "-1", "WITHSCORES")
	pairs, err := m.AsZScores()
	require.NoError(r.t, err)
	got := []string{}
	for _, p := range pairs {
		session, n, _ := strings.Cut(p.Member, ":")
		short := string([]byte(unhex(session[:8]))) + ":" + n
		switch {
		case p.Score < 0:
			short = "-" + short
		case p.Score < 1:
			short = "+" + short
		}
		got = append(got, strings.TrimLeft(short, "\x00"))
	}
	want := slices.Clone(places)
	require.ElementsMatch(r.t, want, got)
	waiting := func(all []string) []string {
		return slices.DeleteFunc(append([]string{}, all...), func(p string) bool { return p[0] == '-' })
	}
	require.Equal(r.t, waiting(want), waiting(got), "the order")
}

// unhex returns the letters that session makes a UUID of.
func unhex(digits string) (letters string) {
	for i := 0; i < len(digits); i += 2 {
		if n, _ := strconv.ParseUint(digits[i:i+2], 16, 8); n > 0 {
			letters += string(rune(n))
		}
	}
	return letters
}

func TestTheAbsentStandBackUntilTheyLook(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		r.comes("b")
		r.enters("h", 1, false)
		r.enters("a", 1, true)
		r.enters("b", 1, true)
		r.enters("a", 2, true)
		r.enters("b", 2, true)
		r.enters("b", 3, true)
		r.passes(r.of("h", 1), "b:1", "-a:1", "a:2", "b:2", "b:3")
		r.passes(r.of("b", 1), "b:2", "-a:1", "-a:2", "b:3")
		require.Positive(t, r.pttl(placesQueue))
		r.comes("a")
		r.looksFor(r.of("a", 1))
		r.passes(r.of("b", 2), "a:1", "-a:2", "b:3")
		r.passes(r.of("a", 1), "b:3", "-a:2")
		r.passes(r.of("b", 3), "", "-a:2")
	})
}

func TestTheDeafWhoLookComeNext(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		r.comes("b")
		r.enters("h", 1, false)
		r.enters("a", 2, true)
		r.enters("a", 1, true)
		r.enters("b", 1, true)
		r.enters("b", 2, true)
		r.passes(r.of("h", 1), "b:1", "-a:2", "-a:1", "b:2")
		r.looksFor(r.of("a", 1), r.of("a", 2))
		r.mustHave("b:1", "+a:2", "+a:1", "b:2")
		r.passes(r.of("b", 1), "a:2", "+a:1", "b:2")
		tokens := r.looksFor(r.of("a", 2))
		require.Positive(t, tokens[0], "the look has not found the grant")
		r.mustHave("a:2", "+a:1", "b:2")
		r.mustNear("the lease", r.pttl("a"), r.of("a", 2).Length)
	})
}

// age has places of a session wait for a minute, without a look.
func (r *placesRig) age(short string, numbers ...int) {
	r.t.Helper()
	for _, n := range numbers {
		r.must("ZINCRBY", placesQueue, fmt.Sprint(-time.Minute.Microseconds()), id(fmt.Sprint(short, ":", n)))
	}
}

// Whoever finds the lock free passes the places of those who have not looked lately. The others keep theirs,
// whether they come at once or take longer.
func TestTheSilentStandBackOnceTheLockIsFree(t *testing.T) {
	for what, find := range map[string]func(r *placesRig){
		"by an acquisition": func(r *placesRig) { r.enters("d", 1, true) },
		"by a try":          func(r *placesRig) { require.False(r.t, r.enters("d", 1, false)) },
		"by a look":         func(r *placesRig) { r.looksFor(r.of("e", 1)) },
	} {
		t.Run(what, func(t *testing.T) {
			onPlacesRigs(t, func(t *testing.T, r *placesRig) {
				for _, short := range []string{"a", "b", "c", "e"} {
					r.comes(short)
				}
				r.enters("h", 1, false)
				for n := range 3 {
					r.enters("a", n, true)
				}
				r.enters("c", 1, true)
				r.enters("b", 1, true) // of another process that stands still
				r.enters("e", 1, true)
				r.passes(r.of("h", 1), "a:0", "a:1", "a:2", "c:1", "b:1", "e:1")
				r.age("c", 1)
				r.age("a", 1, 2)
				r.age("b", 1)
				r.looksFor(r.of("c", 1))
				r.must("DEL", "a") // the claim lapses
				find(r)
				require.Equal(t, map[string]string{id("c:1"): "1"}, r.hash("a"))
				require.EqualValues(t, 3, r.int("ZCOUNT", placesQueue, "-inf", "(0"))
				r.looksFor(r.of("a", 1), r.of("a", 2)) // it goes on
				r.passes(r.of("c", 1), "a:1", append([]string{"a:2", "-b:1", "e:1"}, map[bool][]string{true: {"d:1"}}[strings.Contains(what, "acq")]...)...)
			})
		})
	}
}

// What says when sessions have looked is gone, or may not be read, or the server's clock has stepped: nobody is
// passed for good, and one has the lock.
func TestALockIsFreeWhileNothingTellsWhoIsSilent(t *testing.T) {
	for what, change := range map[string]func(r *placesRig){
		"gone":    func(r *placesRig) { r.must("DEL", "relock_seen:{a}") },
		"damaged": func(r *placesRig) { r.must("SET", "relock_seen:{a}", "x") },
		"forbidden": func(r *placesRig) {
			r.must("ACL", "SETUSER", "default", "resetkeys", "~a", "~relock_fence:*", "~relock_queue:*")
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := &placesRig{&rwRig{NewRig(t), "a"}, nil}
			r.conn, _ = r.Client.Dedicate()
			r.conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
			r.comes("a")
			r.comes("b")
			r.enters("h", 1, false)
			r.enters("w", 1, true)
			r.enters("a", 1, true)
			r.enters("b", 1, true)
			change(r)
			r.must("DEL", "a")
			tokens := r.looksFor(r.of("a", 1))
			tokens = append(tokens, r.looksFor(r.of("b", 1))...)
			require.Positive(t, tokens[0])
			require.Zero(t, tokens[1])
		})
	}
}

func TestAForcedLockGoesToTheNext(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		r.comes("a")
		r.comes("c")
		r.enters("h", 1, false)
		r.enters("a", 1, true)
		r.enters("a", 2, true)
		r.enters("c", 1, true)
		r.passes(r.of("h", 1), "a:1", "a:2", "c:1")
		require.True(t, r.enters("a", 1, false), "it has the lock")
		r.mustHave("a:1", "a:2", "c:1")
		r.passes(r.of("a", 1), "a:2", "c:1")
		opened, err := r.Force(ctx0, "a")
		require.NoError(t, err)
		require.True(t, opened)
		r.mustHave("c:1")
	})
}

func TestManyWhoAreAbsentArePassedOnce(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		const many, kept = 10_250, 10_000
		r.comes("b")
		r.enters("h", 1, false)
		r.must("EVAL", `for n = 1, tonumber(ARGV[1]) do redis.call('zadd', KEYS[1], n + 2, ARGV[2] .. n) end`, "1", placesQueue,
			fmt.Sprint(many), session("a")+":")
		r.enters("b", 1, true)
		r.enters("b", 2, true)
		r.end(r.of("h", 1))
		require.EqualValues(t, kept, r.int("ZCOUNT", placesQueue, "-inf", "(0"))
		require.EqualValues(t, 1, r.int("ZCOUNT", placesQueue, "(0", "+inf"))
		r.end(r.of("b", 1))
		require.Equal(t, map[string]string{id("b:2"): "1"}, r.hash("a"))
	})
}

// Nobody in the queue is there: whoever comes takes the lock, and they keep their places.
func TestQueueOfTheAbsentKeepsNobodyFromTheLock(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		r.enters("h", 1, false)
		r.enters("a", 1, true)
		r.enters("a", 2, true)
		r.passes(r.of("h", 1), "", "-a:1", "-a:2")
		for n := range 3 {
			require.True(t, r.enters("c", n, n == 2), "the lock cannot be acquired")
			r.passes(r.of("c", n), "", "-a:1", "-a:2")
		}
	})
}

// Who asks is there, although the server sees no subscription of it: those of one session
// that look get a free lock in their order.
func TestWaitersThatProbeGetAFreeLockInTheirOrder(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		r.enters("h", 1, false)
		r.enters("a", 2, true)
		r.enters("a", 1, true)
		r.passes(r.of("h", 1), "", "-a:2", "-a:1")
		tokens := r.looksFor(r.of("a", 1), r.of("a", 2))
		require.Zero(t, tokens[0])
		require.Positive(t, tokens[1])
		r.mustHave("a:2", "+a:1")
	})
}

// A contender with a lease below 5 s gets the lock for no longer than that.
func TestAClaimIsThatOfTheWinner(t *testing.T) {
	onPlacesRigs(t, func(t *testing.T, r *placesRig) {
		r.comes("a")
		r.enters("h", 1, false)
		short := r.of("a", 1)
		short.Length, short.Claim = time.Second, ClaimOf(time.Second)
		_, _, err := r.Acquire(ctx0, short, Millis(short.Length), true)
		require.NoError(t, err)
		r.end(r.of("h", 1))
		r.mustNear("the claim", r.pttl("a"), time.Second)
		r.end(short)
		require.Zero(t, r.int("EXISTS", placesQueue, "a"))
	})
}
