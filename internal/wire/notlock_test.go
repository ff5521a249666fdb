package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

// foreignCases are of locks to whose key an application has added a field.
func foreignCases() []scriptCase {
	return []scriptCase{
		{"acquire what is held, with a field added", all(has(Plain, 2), added), tries(Plain, 1), "taken", same},
		{"enter what is held, with a field added", all(has(Fair, 2), added), asks(Fair, 1), "taken", same},
		{"write beside a reader, with a field added", all(has(Read, 2), added), asks(Write, 1), "taken", same},
		{"read beside a reader, with a field added", all(has(Read, 2), added, theirsWas), asks(Read, 1), "join", same},
		{"release a hold, with a field added", all(has(Plain, 1), added), ends(Plain, 1), "told 0", "told -1"},
		{"release what the absent queue for, with a field added",
			all(has(Fair, 1), wants(Fair, 2), added), ends(Fair, 1), "told 0", "told -1"},
		{"release a read hold, with a field added", all(has(Read, 1), added), ends(Read, 1), "told 1", "told -1"},
		{"release a read hold beside a dead reader, with a field added",
			all(has(Read, 1), has(Read, 2), added, dead(2, 1)), ends(Read, 1), "told 1", "told -1"},
		{"release a write hold, with a field added", all(has(Write, 1), added), ends(Write, 1), "told 1", "told -1"},
		{"release a write hold beside a dead reader, with a field added",
			all(has(Write, 1), under(2, 1), added, del(timeoutOf("s:2", 1))), ends(Write, 1), "told 1", "told -1"},
		{"renew, with a field added", all(has(Plain, 1), added), renews(Plain, 1), "kept", same},
		{"inspect, with a field added", all(has(Plain, 1), added), inspects, "waiters 0, fields 1", same},
		{"force, with a field added", all(has(Plain, 1), added), forces, "opened true", "no lock"},
		{"force what is read, with a field added", all(has(Read, 1), has(Read, 2), added), forces, "opened true", "no lock"},
		{"force what others queue for, with a field added",
			all(has(Fair, 1), wants(Fair, 2), added), forces, "opened true", "no lock"},
	}
}

const uuid = "4f1b9a52-8d9e-4c55-9d0c-000000000001"

// noLocks are what applications and other libraries have at keys.
var noLocks = map[string][]string{
	"hash":             {"HSET", "a", "status", "paid", "total", "12"},
	"hash like a cart": {"HSET", "a", "product:1001", "2", "product:7", "1"},
	"hash with a mode": {"HSET", "a", "mode", "read", "volume", "3"},
	"mode alone":       {"HSET", "a", "mode", "read"},
	"written mode":     {"HSET", "a", "mode", "write", "volume", "3"},
	"empty field":      {"HSET", "a", "", ""},
	"UUIDs":            {"HSET", "a", uuid, "1"},
	"UUIDs and words":  {"HSET", "a", uuid + ":name", "1", uuid + ":1x", "1"},
	"hold id and more": {"HSET", "a", uuid + ":1:\x1b]0;free\a", "1", uuid + ":1 ", "1", uuid + ":1\n", "1",
		uuid + ":1:writer", "1"},
	"transaction":  {"HSET", "a", uuid + ":57:0f3a7bd0c5e14f6f8b2fb3a5b2f0a1c9", "1"},
	"no number":    {"HSET", "a", uuid + ":", "1", uuid + ":-", "1", uuid + ":write", "1", uuid + ":0x1", "1"},
	"no UUIDs":     {"HSET", "a", "4f1b9a528-d9e-4c55-9d0c-000000000001:1", "1", "x" + uuid + ":1", "1"},
	"string":       {"SET", "a", "eiu7Lmq0"},
	"empty string": {"SET", "a", ""},
	"list":         {"RPUSH", "a", "1"},
	"set":          {"SADD", "a", id("s:1")},
	"zset":         {"ZADD", "a", "1", id("s:1")},
	"stream":       {"XADD", "a", "1-1", id("s:1"), "1"},
	"large hash":   largeHash(),
}

func largeHash() []string {
	hash := []string{"HSET", "a"}
	for i := range 2000 {
		hash = append(hash, fmt.Sprint("field ", i), "value")
	}
	return hash
}

// asksNoLock are the calls that answer ErrNotLock.
var asksNoLock = map[string]func(r *rig) error{
	"acquire": func(r *rig) error { _, _, err := r.try(r.lease(Plain, 1), false); return err },
	"write":   func(r *rig) error { _, _, err := r.try(r.writer(1), true); return err },
	"read":    func(r *rig) error { _, _, err := r.try(r.reader(1), true); return err },
	"enter":   func(r *rig) error { _, _, err := r.try(r.lease(Fair, 1), false); return err },
	"queue":   func(r *rig) error { _, _, err := r.try(r.lease(Fair, 1), true); return err },
	"force":   func(r *rig) error { _, err := r.Force(ctx0, "a"); return err },
	"inspect": func(r *rig) error { _, err := r.Inspect(ctx0, "a"); return err },
}

func TestKeyThatIsNoLockStaysAsItIs(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for what, content := range noLocks {
			for _, expires := range []bool{false, true} {
				r.must("FLUSHALL")
				r.must(content...)
				if expires {
					r.must("PEXPIRE", "a", "60000")
				}
				before := r.whole("a")
				stays := func(call string) {
					require.Equal(t, before, r.whole("a"), "%s of a %s", call, what)
					require.Equal(t, []string{"a"}, r.keys(), "%s of a %s", call, what)
				}
				for call, ask := range asksNoLock {
					err := ask(r)
					require.ErrorIs(t, err, lockerr.ErrNotLock, "%s of a %s", call, what)
					require.False(t, transport.Transient(err))
					require.ErrorContains(t, err, `"a"`)
					require.ErrorContains(t, err, "WithPrefix")
					require.Equal(t, content[0] != "HSET", strings.Contains(err.Error(), "redsync"), "%s of a %s: %v", call, what, err)
					stays(call)
				}
				for _, k := range kinds {
					require.Equal(t, "gone", renews(k, 1)(r), "renewal of a %s", what)
					stays("renewal")
					told, err := r.Release(ctx0, r.lease(k, 1))
					require.Equal(t, content[0] != "HSET", err != nil, "release of a %s: %v", what, err)
					require.True(t, err != nil || told == -1)
					stays("release")
				}
			}
		}
	})
}

func TestProbeOfNoLockLosesThePlaceOnly(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for what, content := range noLocks {
			r.must("FLUSHALL")
			has(Fair, 1)(r)
			wants(Fair, 2)(r)
			r.must("DEL", "a")
			r.must(content...)
			before := r.whole("a")
			require.Equal(t, "lost", looks(Fair, 2)(r), what)
			require.Equal(t, "told 0", ends(Fair, 2)(r), "leaving the queue at a %s", what)
			require.Equal(t, before, r.whole("a"), what)
			require.Zero(t, r.int("EXISTS", plainQueue))
		}
	})
}

// Whoever releases a lock leaves the fields that an application has added, and nothing else.
func TestFieldsOfAnApplicationStay(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, c := range foreignCases() {
			r.must("FLUSHALL")
			c.before(r)
			require.NotEqual(t, "no lock", c.call(r), c.name)
			hash := r.hash("a")
			require.Equal(t, "paid", hash["status"], c.name)
			ended := strings.HasPrefix(c.name, "release") || strings.HasPrefix(c.name, "force")
			require.Equal(t, ended, len(hash) == 1, "%s: left %q", c.name, hash)
		}
	})
}

// A hold id is what it says, and nothing behind it: inspect and unlock of the command show it.
func TestFieldsLikeHoldIDsAreNoHolders(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for what, content := range noLocks {
			if content[0] != "HSET" || len(content) > 16 || strings.Contains(what, "mode") {
				continue // of a large one not all fields are looked at
			}
			r.must("FLUSHALL")
			r.must(content...)
			before := r.hash("a")
			r.must("HSET", "a", uuid+":-57", "1")
			in, err := r.Inspect(ctx0, "a")
			require.NoError(t, err, what)
			require.Equal(t, map[string]int{uuid + ":-57": 1}, in.Fields, what)
			was, err := r.Force(ctx0, "a")
			require.NoError(t, err, what)
			require.True(t, was)
			require.Equal(t, before, r.hash("a"), what)
		}
	})
}

// What Redisson's locks look like is never taken for data. They are held: nobody gets one, nor ends it.
func TestLocksOfRedissonAreLocks(t *testing.T) {
	many := []string{"mode", "read", "status", "paid"}
	for n := range 1000 {
		many = append(many, id(fmt.Sprint("j:", n)), "1")
	}
	onRigs(t, func(t *testing.T, r *rig) {
		for what, fields := range map[string][]string{
			"RLock":                   {uuid + ":57", "2"},
			"negative thread id":      {uuid + ":-8057246411935481937", "1"},
			"read lock":               {"mode", "read", uuid + ":57", "1", uuid + ":58", "1"},
			"write lock":              {"mode", "write", uuid + ":57:write", "1"},
			"both sides":              {"mode", "write", uuid + ":57:write", "1", uuid + ":57", "1"},
			"with a field added":      {uuid + ":57", "1", "status", "paid"},
			"upper case":              {strings.ToUpper(uuid) + ":57", "1"},
			"read lock, field added":  {"mode", "read", uuid + ":57", "1", "status", "paid"},
			"many readers and fields": many, // only some of which are looked at
		} {
			r.must("FLUSHALL")
			r.must(append([]string{"HSET", "a"}, fields...)...)
			r.must("PEXPIRE", "a", "30000")
			before := r.whole("a")
			for _, k := range kinds {
				if k != Read || fields[1] != "read" {
					require.Equal(t, "taken", tries(k, 1)(r), "%s, kind %d", what, k)
					require.Equal(t, "taken", asks(k, 1)(r), "%s, kind %d", what, k)
					require.Equal(t, "told 0", ends(k, 1)(r), "%s, kind %d: its place", what, k)
					require.Equal(t, "told -1", ends(k, 1)(r), "%s, kind %d", what, k)
					require.Equal(t, before, r.whole("a"), "%s, kind %d", what, k)
				}
			}
			in, err := r.Inspect(ctx0, "a")
			require.NoError(t, err, what)
			holds := len(fields) / 2
			if slices.Contains(fields, "status") {
				holds--
			}
			require.Len(t, in.Fields, holds, what)
			require.NotContains(t, in.Fields, "status", what)
			require.Equal(t, "opened true", forces(r), what)
		}
	})
}

// Keys of relock's own beside the lock that have another type are an error that names them, and nobody has the lock:
// it was taken first once, and stayed held by nobody until its lease ended.
func TestKeyOfAnotherTypeBesideIsNamed(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for key, calls := range map[string][]string{
			fenceKey: {"acquire", "write", "enter", "queue"}, plainQueue: {"acquire", "enter", "queue", "inspect"},
			rwQueue: {"read", "write", "inspect"},
		} {
			for _, call := range calls {
				r.must("FLUSHALL")
				r.must("RPUSH", key, "x")
				err := asksNoLock[call](r)
				require.ErrorIs(t, err, lockerr.ErrNotLock, "%s with a list at %s", call, key)
				require.False(t, transport.Transient(err))
				require.ErrorContains(t, err, key)
				require.Equal(t, []string{key}, r.keys(), "%s with a list at %s", call, key)
			}
		}
	})
}

// Older permissions do not include HRANDFIELD. Then a hash counts as taken, and is not deleted.
func TestWithoutHRANDFIELDAHashIsTaken(t *testing.T) {
	r := newRig(t)
	r.must("ACL", "SETUSER", "default", "-hrandfield")
	r.must("HSET", "a", "status", "paid")
	require.Equal(t, "taken", tries(Plain, 1)(r))
	require.Equal(t, "no lock", forces(r))
	require.Equal(t, map[string]string{"status": "paid"}, r.hash("a"))
}
