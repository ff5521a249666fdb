package wire

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
	"pgregory.net/rapid"
)

// fenceAt is lua/lib/fence.lua in Go: the token issued at a time of the server's clock, after
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

// clocked returns lua/lib/fence.lua as a script of its own, with the clock as an argument.
func clocked() *transport.Script {
	return &transport.Script{Text: strings.Replace(luaOf("lib/fence.lua"), "redis.call('time')", "{ARGV[1], ARGV[2]}", -1) + `
local f = fence(KEYS[1])
return {string.format('%.0f', f), redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1])}`}
}

func TestFenceAgreesWithItsModel(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		s := clocked()
		rapid.Check(t, func(rt *rapid.T) {
			const farthest = 1<<53/1024/1000 - 10 // until when tokens are exact: the year 2248
			sec := rapid.OneOf(rapid.Int64Range(1700000000, 1900000000), rapid.Int64Range(farthest-5, farthest)).Draw(rt, "sec")
			micros := rapid.OneOf(rapid.Int64Range(0, 999999), rapid.SampledFrom([]int64{0, 1, 999, 1000, 999999})).Draw(rt, "micros")
			now := (sec*1000 + micros/1000) * 1024
			last := rapid.OneOf(
				rapid.Just(int64(0)),
				rapid.Int64Range(now-3000, now+3000),
				rapid.Map(rapid.Int64Range(now/1024-3, now/1024+3), func(ms int64) int64 { return ms * 1024 }),
				rapid.Int64Range(1, now),
				rapid.Int64Range(now, min(now+3600*1024000, 1<<53-5000)), // the clock has stepped back
			).Draw(rt, "last")
			if last == 0 {
				r.must("DEL", "f")
			} else {
				r.must("SET", "f", fmt.Sprint(last))
			}
			reply, err := r.Eval(ctx0, s, []string{"f"}, []string{fmt.Sprint(sec), fmt.Sprint(micros)}).ToArray()
			if err != nil {
				rt.Fatal(err)
			}
			issued, _ := reply[0].ToString()
			stored, _ := reply[1].ToString()
			ttl, _ := reply[2].AsInt64()
			want := fenceAt(sec, micros, last)
			if issued != fmt.Sprint(want) || stored != issued {
				rt.Fatalf("issued %s, stored %s, want %d", issued, stored, want)
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

// burst acquires and releases a lock n times in one pipeline, and returns the tokens
// and how far the last was ahead of the server's clock.
func (r *rig) burst(name string, n int) (issued []int64, lead time.Duration) {
	r.t.Helper()
	k := NewKeys(Plain, name)
	var cmds rueidis.Commands
	for i := range n {
		id := id(fmt.Sprint("s:", i))
		cmds = append(cmds,
			r.Evalsha(r.script("acquire"), []string{k.Name, k.fence, k.aux}, []string{id, "30000", "0", "5000"}),
			r.Client.B().Arbitrary("HDEL", k.Name, id).Build())
	}
	cmds = append(cmds, r.Client.B().Arbitrary("TIME").Build())
	rs := r.Client.DoMulti(ctx0, cmds...)
	for i := range n {
		f, err := rs[2*i].AsInt64()
		if err != nil || f <= 0 {
			r.t.Fatalf("acquire = %d, %v", f, err)
		}
		issued = append(issued, f)
	}
	now, err := rs[2*n].AsIntSlice()
	if err != nil {
		r.t.Fatal(err)
	}
	ahead := issued[n-1] - now[0]*1024000 - now[1]*1024/1000
	return issued, time.Duration(ahead) * time.Millisecond / 1024
}

// follow checks that blocks of tokens follow each other without overlapping.
func (r *rig) follow(top int64, issued []int64) (last int64) {
	r.t.Helper()
	for _, f := range issued {
		if f <= top {
			r.t.Fatalf("token %d follows a block that ends with %d", f, top)
		}
		top = f + Tokens(f) - 1
	}
	return top
}

// A lock is acquired and released as fast as the server can, many times faster than
// any program could: tokens grow, blocks do not overlap, and they stay close to the
// clock. They used to run ahead of it, by 100 ms after a fifth of a second, and so
// were issued again after the loss of all data.
func TestTokensGrowFasterThanAnyClock(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.take(plainLease("b", 1)) // so that the server knows the script
		rounds, n := 40, 400
		if r.mini {
			rounds, n = 5, 50
		}
		var top int64
		var worst time.Duration
		start := time.Now()
		for range rounds {
			issued, lead := r.burst("a", n)
			top = r.follow(top, issued)
			worst = max(worst, lead)
		}
		t.Logf("%d acquisitions in %v, at most %v ahead of the clock", rounds*n, time.Since(start), worst)
		if worst > 3*time.Millisecond {
			t.Fatalf("tokens ran %v ahead of the clock", worst)
		}
	})
}

// All data is lost right after a burst, again and again.
func TestTokensGrowOverTheLossOfAllData(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.take(plainLease("b", 1))
		rounds := 150
		if r.mini {
			rounds = 15
		}
		var top int64
		for round := range rounds {
			issued, _ := r.burst("a", 1+round%40*5)
			top = r.follow(top, issued)
			r.must("FLUSHALL")
		}
	})
}

// Usually a lock can be passed on. The first token of its life comes alone, since nothing tells what was before.
func TestBlocksOfTokensAreUsed(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		l := plainLease("a", 1)
		if first := r.take(l); Tokens(first) != 1 {
			t.Fatalf("the first token %d starts a block of %d", first, Tokens(first))
		}
		r.end(l)
		time.Sleep(10 * time.Millisecond)
		if next := r.take(l); Tokens(next) != 1024 {
			t.Fatalf("token %d starts a block of %d", next, Tokens(next))
		}
	})
}
