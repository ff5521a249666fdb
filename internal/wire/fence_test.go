package wire

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// largest is the last token that others follow: 2^30 more are exact numbers.
const largest = 1<<53 - 1<<30

// fenceAt is issue of lua/token.lua in Go: the token issued at a time of the server's clock, after
// last; 0 if none is known.
func fenceAt(sec, micros, last int64) int64 {
	now := sec*1024000 + int64(math.Floor(float64(micros)*1.024))
	ms := (sec*1000 + micros/1000) * 1024
	next := last + Tokens(last)
	switch {
	case last == 0:
		next = now + 2064
	case last < ms:
		return ms
	}
	if next%1024 == 0 {
		next++
	}
	return next
}

// clocked returns issue of lua/token.lua as a script of its own, with the clock as an argument.
func clocked() *transport.Script {
	text, err := assemble(luaFiles, "token.lua")
	if err != nil {
		panic(err)
	}
	return &transport.Script{Text: strings.ReplaceAll(text, "redis.call('time')", "{ARGV[1], ARGV[2]}") + `
local f, again = issue(KEYS[1], ARGV[3], 0)
return {string.format('%.0f', f), redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1]), again}`}
}

func TestFenceAgreesWithItsModel(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		s := clocked()
		rapid.Check(t, func(rt *rapid.T) {
			const farthest = largest/1024/1000 - 10 // until when there are tokens: the year 2248
			sec := rapid.OneOf(rapid.Int64Range(1700000000, 1900000000), rapid.Int64Range(farthest-5, farthest)).Draw(rt, "sec")
			ends := rapid.SampledFrom([]int64{0, 1, 999, 1000, 999999})
			micros := rapid.OneOf(rapid.Int64Range(0, 999999), ends).Draw(rt, "micros")
			now := (sec*1000 + micros/1000) * 1024
			last := rapid.OneOf(
				rapid.Just(int64(0)),
				rapid.Int64Range(now-3000, now+3000),
				rapid.Map(rapid.Int64Range(now/1024-3, now/1024+3), func(ms int64) int64 { return ms * 1024 }),
				rapid.Int64Range(1, now),
				rapid.Int64Range(now, min(now+3600*1024000, largest)), // the clock has stepped back
			).Draw(rt, "last")
			holder := rapid.SampledFrom([]string{"-", id("s:1")}).Draw(rt, "holder")
			behind := rapid.SampledFrom([]string{"", " -", " " + id("s:9"), " " + id("t:1") + " a note"}).Draw(rt, "behind")
			if last == 0 {
				r.must("DEL", "f")
			} else {
				r.must("SET", "f", fmt.Sprint(last, behind))
			}
			reply, err := r.Eval(ctx0, s, []string{"f"}, []string{fmt.Sprint(sec), fmt.Sprint(micros), holder}).ToArray()
			if err != nil {
				rt.Fatal(err)
			}
			issued, _ := reply[0].ToString()
			stored, _ := reply[1].ToString()
			ttl, _ := reply[2].AsInt64()
			want := fenceAt(sec, micros, last)
			again, _ := reply[3].AsInt64()
			if issued != fmt.Sprint(want) || stored != issued+" "+holder {
				rt.Fatalf("issued %s, stored %s, want %d", issued, stored, want)
			}
			if known := last > 0 && (holder == "-" || !strings.HasPrefix(behind, " "+holder[:min(36, len(holder))])); known != (again == 1) {
				rt.Fatalf("again %d after %q for %q", again, behind, holder)
			}
			if want >= 1<<53 || want < last+Tokens(last) && last > 0 {
				rt.Fatalf("token %d after the %d of %d", want, Tokens(last), last)
			}
			// The key lives until a minute after the clock has passed the token.
			if passed := (want - now + 1023) / 1024; ttl > 60001+max(0, passed) || ttl < 59000+max(0, passed) {
				rt.Fatalf("time to live %d ms, token %d ms ahead", ttl, passed)
			}
		})
	})
}

// The clock moves on by at least what a script takes, and now and then jumps, back as
// well while the last token is known. All data is lost at any moment. Tokens grow, and
// stay within 3 ms of the clock, or of what it was before it went back.
func TestTokensOfTheModelGrowWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		clock := int64(1790000000) * 1000000 // µs
		var last, top, lead int64
		back := false // it stood behind what it had been, so data must not be lost
		highest := clock
		for range rapid.IntRange(1, 300).Draw(rt, "acquisitions") {
			switch rapid.IntRange(0, 20).Draw(rt, "what") {
			case 0:
				clock += rapid.Int64Range(3, 5_000_000).Draw(rt, "idle")
			case 1:
				clock -= rapid.Int64Range(0, 5_000_000).Draw(rt, "back")
			case 2:
				if !back {
					clock += 50 // a few scripts take that; nobody loses all data twice within them
					last = 0
				}
			case 3:
				clock += rapid.Int64Range(3, 1000).Draw(rt, "pause")
			default:
				clock += rapid.Int64Range(3, 30).Draw(rt, "next")
			}
			highest = max(highest, clock)
			f := fenceAt(clock/1000000, clock%1000000, last)
			if f <= top {
				rt.Fatalf("token %d after %d", f, top)
			}
			last, top = f, f+Tokens(f)-1
			lead = top - highest*1024/1000
			if lead > 3*1024 {
				rt.Fatalf("token %d is %d ahead", top, lead)
			}
			back = clock < highest
		}
	})
}

// burst acquires and releases the lock n times in one pipeline, whose last token ended with top. It returns the last
// token of these, and how far that was ahead of the server's clock. Blocks of tokens follow each other.
func (r *rig) burst(n int, top int64) (last int64, lead time.Duration) {
	r.t.Helper()
	var cmds rueidis.Commands
	for i := range n {
		l := r.lease(Plain, i)
		c := mutex{}.acquire(r.Protocol, new(callBuffer), l, Ask{LeaseMS: "30000"})
		cmds = append(cmds, r.Evalsha(c.Script, c.Keys, c.Args), r.Client.B().Arbitrary("HDEL", r.name, l.ID).Build())
	}
	cmds = append(cmds, r.Client.B().Arbitrary("TIME").Build())
	rs := r.Client.DoMulti(ctx0, cmds...)
	var first int64
	for i := range n {
		reply, err := rs[2*i].AsIntSlice()
		require.NoError(r.t, err)
		token := reply[0]
		require.Greater(r.t, token, top, "it follows a block that ends with that")
		first, top = token, token+Tokens(token)-1
	}
	now, err := rs[2*n].AsIntSlice()
	require.NoError(r.t, err)
	ahead := first - now[0]*1024000 - now[1]*1024/1000
	return top, time.Duration(ahead) * time.Millisecond / 1024
}

// A lock is acquired and released as fast as the server can, many times faster than any program could: tokens grow,
// blocks do not overlap, and they stay close to the clock. They used to run ahead of it, by 100 ms after a fifth of a
// second, and so were issued again after the loss of all data: here it is lost after each of the short bursts.
func TestTokensGrowFasterThanAnyClock(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.goesOn()
		r.take(newLease(Plain, "b", 1)) // so that the server knows the script
		long, n, short := 40, 400, 150
		if r.mini {
			long, n, short = 5, 50, 15
		}
		var top int64
		var lead, worst time.Duration
		for range long {
			top, lead = r.burst(n, top)
			worst = max(worst, lead)
		}
		require.LessOrEqual(t, worst, 3*time.Millisecond, "ahead of the clock")
		for round := range short {
			r.must("FLUSHALL")
			top, _ = r.burst(1+round%40*5, top)
		}
	})
}

// Usually a lock can be passed on. The first token of its life comes alone, since nothing tells what was before, also
// if its key has no token.
func TestBlocksOfTokensAreUsed(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.goesOn()
		l := r.lease(Plain, 1)
		for _, last := range []string{"", "rubbish"} {
			r.must("SET", fenceKey, last)
			require.EqualValues(t, 1, Tokens(r.take(l)))
			r.end(l)
			time.Sleep(10 * time.Millisecond)
			require.EqualValues(t, 1024, Tokens(r.take(l)))
			r.end(l)
		}
	})
}

// A Redlock raises the token to another server's, which may be far ahead of this one's clock: it must be known until the
// clock has passed it. The next token is larger than its block, also if this server has issued one of that.
func TestRaisedTokenIsFollowedByLargerOnes(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.goesOn()
		now := time.Now().UnixMilli() * 1024
		for what, c := range map[string]struct{ last, token, want int64 }{
			"ahead":               {now, now + 600*1000*1024, now + 600*1000*1024},
			"far ahead":           {now, largest - 2048, largest - 2048},
			"behind":              {now + 5, now - 600*1000*1024, now + 5},
			"of another block":    {now + 1024, now, now + 1024},
			"of the same block":   {now + 5, now, now + 1023},
			"that has no block":   {now + 6, now + 5, now + 6},
			"where there is none": {0, now + 5, now + 5},
		} {
			r.must("DEL", "a", fenceKey)
			l := r.lease(Plain, 1)
			r.take(l)
			r.must("DEL", fenceKey)
			if c.last > 0 {
				r.must("SET", fenceKey, fmt.Sprint(c.last, " -"))
			}
			held, err := r.Raise(ctx0, l, c.token)
			require.NoError(t, err, what)
			require.True(t, held, what)
			require.Equal(t, fmt.Sprint(c.want, " -"), r.text("GET", fenceKey), what)
			most := l.Length + time.Minute + time.Duration(max(0, c.want-now)/1024)*time.Millisecond
			require.InDelta(t, most, r.pttl(fenceKey), float64(10*time.Second), what)
			r.end(l)
			require.Greater(t, r.take(r.lease(Plain, 2)), c.token+Tokens(c.token)-1, what)
		}
	})
}
