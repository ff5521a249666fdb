package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every script may be sent twice: what the first one left in Redis stays as it is, and nobody is told anything again. The
// reply is the same, or says that there is nothing to be done any more. A call that queues is never sent again.
func TestEveryScriptMayBeSentTwice(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, cases := range [][]scriptCase{scriptCases(), redissonCases()} {
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) { r.on(t).twice(c) })
			}
			r.goesOn()                        // Redisson's entry is behind those before it, and before those behind it
			r.listen(plainChannel, rwChannel) // from the second on
		}
	})
}

// on returns the rig for a subtest.
func (r *rig) on(t *testing.T) *rig {
	sub := *r
	sub.t = t
	return &sub
}

func (r *rig) twice(c scriptCase) {
	r.must("FLUSHALL")
	next := r.listen(sessionChannel, PrefixSession+session("h"), "end")
	c.before(r)
	first := c.call(r)
	require.True(r.t, strings.HasPrefix(first, c.first), "the first said %q, want %q", first, c.first)
	if c.second == once {
		return
	}
	r.must("PUBLISH", "end", "first")
	for next() != "end first" {
	}
	was := r.contents()
	for range 2 {
		require.Equal(r.t, cmp.Or(c.second, first), c.call(r))
		require.Equal(r.t, was, r.contents())
	}
	r.mustMessages(next, "end")
}

// contents returns all that is stored, but for times.
func (r *rig) contents() map[string]string {
	r.t.Helper()
	all := make(map[string]string)
	for _, key := range r.keys() {
		switch semaphore := r.text("TYPE", "a") == "zset"; {
		case key == fenceKey && semaphore: // a permit that is asked for again has a greater token
		case key == "a" && semaphore:
			all[key] = fmt.Sprint(slices.Sorted(slices.Values(r.texts("ZRANGE", key, "0", "-1")))) // the leases are times
		default:
			all[key] = r.whole(key)
		}
	}
	return all
}

// whole returns what is at a key, with its type and whether it expires.
func (r *rig) whole(key string) string {
	r.t.Helper()
	kind, stays := r.text("TYPE", key), r.int("PTTL", key) < 0
	if kind == "hash" {
		return fmt.Sprint(r.hash(key), stays)
	}
	m := r.must(map[string][]string{
		"string": {"GET", key}, "list": {"LRANGE", key, "0", "-1"}, "set": {"SMEMBERS", key},
		"zset": {"ZRANGE", key, "0", "-1", "WITHSCORES"}, "stream": {"XRANGE", key, "-", "+"},
	}[kind]...)
	return fmt.Sprint(kind, m.String(), stays)
}
