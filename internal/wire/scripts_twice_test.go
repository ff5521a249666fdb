package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every script may be sent twice: what the first one left in Redis stays as it is, and
// nobody is told anything again. The reply is the same, or says that there is nothing
// to be done any more.
func TestEveryScriptMayBeSentTwice(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.listen(rwChannel, sessionChannel, plainChannel+":j:1", "end")
		for _, c := range append(scriptCases(), redissonCases()...) {
			t.Log(c.name)
			r.must("FLUSHALL")
			c.before(r)
			first := c.call(r)
			require.True(t, strings.HasPrefix(first, c.first), "the first said %q, want %q", first, c.first)
			r.must("PUBLISH", "end", "first")
			for next() != "end first" {
			}
			was := r.contents()
			for range 2 {
				again := c.call(r)
				require.Equal(t, cmp.Or(c.second, first), again)
				require.Equal(t, was, r.contents())
			}
			r.mustMessages(next, "end")
		}
	})
}

// contents returns all that is stored, but for times and for what ends by itself soon.
func (r *rig) contents() map[string]string {
	r.t.Helper()
	all := make(map[string]string)
	for _, key := range r.keys() {
		switch {
		case strings.HasPrefix(key, "relock_yield"):
		case key == fenceKey && r.text("TYPE", "a") == "zset": // a permit that is asked for again has a greater token
		case key == "a" && r.text("TYPE", "a") == "zset":
			all[key] = fmt.Sprint(slices.Sorted(slices.Values(r.texts("ZRANGE", key, "0", "-1")))) // the leases are times
		case key == rwReaders, strings.HasPrefix(key, "relock_seen"):
			all[key] = fmt.Sprint(slices.Sorted(slices.Values(r.texts("ZRANGE", key, "0", "-1"))))
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
