package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Every script may be sent twice: what the first one left in Redis stays as it is, and
// nobody is told anything again. The reply is the same, or says that there is nothing
// to be done any more.
func TestEveryScriptMayBeSentTwice(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		next := r.listen("redisson_rwlock:{a}", "relock_session:"+session("s"), "redisson_lock__channel:{a}:j:1", "end")
		for _, c := range append(scriptCases(), redissonCases()...) {
			t.Log(c.name)
			r.must("FLUSHALL")
			c.before(r)
			first := c.call(r)
			if !strings.HasPrefix(first, c.first) {
				t.Fatalf("the first said %q, want %q", first, c.first)
			}
			r.must("PUBLISH", "end", "first")
			for next() != "end first" {
			}
			was := r.contents()
			for range 2 {
				again := c.call(r)
				if want := c.second; want != same && again != want || want == same && again != first {
					t.Fatalf("sent again it said %q, first %q", again, first)
				}
				if is := r.contents(); is != was {
					t.Fatalf("sent again it left\n%swhere there was\n%s", is, was)
				}
			}
			r.mustMessages(next, "end")
		}
	})
}

// contents returns all that is stored, but for times and for what ends by itself soon.
func (r *rwRig) contents() string {
	r.t.Helper()
	var all strings.Builder
	for _, key := range r.keys() {
		switch kind := r.text("TYPE", key); {
		case strings.HasPrefix(key, "relock_yield"):
		case kind == "hash":
			fmt.Fprintf(&all, "%s %q\n", key, r.hash(key))
		case key == rwReaders, strings.HasPrefix(key, "relock_seen"):
			m := r.must("ZRANGE", key, "0", "-1")
			names, _ := m.AsStrSlice()
			slices.Sort(names)
			fmt.Fprintf(&all, "%s %q\n", key, names)
		case kind == "zset":
			m := r.must("ZRANGE", key, "0", "-1", "WITHSCORES")
			fmt.Fprintf(&all, "%s %s\n", key, m.String())
		case kind == "list":
			fmt.Fprintf(&all, "%s of %d\n", key, r.int("LLEN", key))
		default:
			fmt.Fprintf(&all, "%s %s\n", key, r.text("GET", key))
		}
	}
	return all.String()
}
