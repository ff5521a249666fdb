package wire

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
)

// added is a field that an application adds to the key of a held lock.
var added = runs("HSET", "a", "status", "paid")

// foreignCases are of locks to whose key an application has added a field.
func foreignCases() []scriptCase {
	return []scriptCase{
		{"acquire what is held, with a field added", all(has(Plain, 2), added), asks(Plain, 1), "taken", same},
		{"enter what is held, with a field added", all(has(Fair, 2), added), queues(1), "taken", same},
		{"write beside a reader, with a field added", all(has(Read, 2), added), asks(Write, 1), "taken", same},
		{"read beside a reader, with a field added", all(has(Read, 2), added, theirsWas), asks(Read, 1), "join", same},
		{"release a hold, with a field added", all(has(Plain, 1), added), ends(Plain, 1), "told 0", "told -1"},
		{"release what the absent queue for, with a field added",
			all(has(Fair, 1), does(queues(2)), added), ends(Fair, 1), "told 0", "told -1"},
		{"release a read hold, with a field added", all(has(Read, 1), added), ends(Read, 1), "told 1", "told -1"},
		{"release a read hold beside a dead reader, with a field added",
			all(has(Read, 1), has(Read, 2), added, dead(2, 1)), ends(Read, 1), "told 1", "told -1"},
		{"release a write hold, with a field added", all(has(Write, 1), added), ends(Write, 1), "told 1", "told -1"},
		{"release a write hold beside a dead reader, with a field added",
			all(has(Write, 1), under(2, 1), added, del("{a}:"+id("s:2")+":rwlock_timeout:1")), ends(Write, 1), "told 1", "told -1"},
		{"renew, with a field added", all(has(Plain, 1), added), renews(Plain, 1), "kept", same},
		{"inspect, with a field added", all(has(Plain, 1), added), inspects, "waiters 0, fields 1", same},
		{"force, with a field added", all(has(Plain, 1), added), forces, "opened true", "no lock"},
		{"force what is read, with a field added", all(has(Read, 1), has(Read, 2), added), forces, "opened true", "no lock"},
		{"force what others queue for, with a field added", all(has(Fair, 1), does(queues(2)), added), forces, "opened true", "no lock"},
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
	"hold id and more": {"HSET", "a", uuid + ":1:\x1b]0;free\a", "1", uuid + ":1 ", "1", uuid + ":1\n", "1", uuid + ":1:writer", "1"},
	"transaction":      {"HSET", "a", uuid + ":57:0f3a7bd0c5e14f6f8b2fb3a5b2f0a1c9", "1"},
	"no number":        {"HSET", "a", uuid + ":", "1", uuid + ":-", "1", uuid + ":write", "1", uuid + ":0x1", "1"},
	"no UUIDs":         {"HSET", "a", "4f1b9a528-d9e-4c55-9d0c-000000000001:1", "1", "x" + uuid + ":1", "1"},
	"string":           {"SET", "a", "eiu7Lmq0"},
	"empty string":     {"SET", "a", ""},
	"list":             {"RPUSH", "a", "1"},
	"set":              {"SADD", "a", id("s:1")},
	"zset":             {"ZADD", "a", "1", id("s:1")},
	"stream":           {"XADD", "a", "1-1", id("s:1"), "1"},
	"large hash":       largeHash(),
}

func largeHash() []string {
	hash := []string{"HSET", "a"}
	for i := range 2000 {
		hash = append(hash, fmt.Sprint("field ", i), "value")
	}
	return hash
}

// whole returns what is at a key, with its type and whether it expires.
func (r *rig) whole(key string) string {
	r.t.Helper()
	kind := r.text("TYPE", key)
	read := map[string][]string{
		"hash": {"HGETALL", key}, "string": {"GET", key}, "list": {"LRANGE", key, "0", "-1"}, "set": {"SMEMBERS", key},
		"zset": {"ZRANGE", key, "0", "-1", "WITHSCORES"}, "stream": {"XRANGE", key, "-", "+"},
	}[kind]
	if kind == "hash" {
		return fmt.Sprint(r.hash(key), r.int("PTTL", key) < 0)
	}
	m := r.must(read...)
	return fmt.Sprint(kind, m.String(), r.int("PTTL", key) < 0)
}

// asksNoLock are the calls that answer ErrNotLock.
var asksNoLock = map[string]func(r *rwRig) error{
	"acquire": func(r *rwRig) error { _, _, err := r.ask(r.lease(Plain, 1)); return err },
	"write":   func(r *rwRig) error { _, _, err := r.Acquire(ctx0, r.writer(1), "1000", true); return err },
	"read":    func(r *rwRig) error { _, _, err := r.AcquireRead(ctx0, r.reader(1), "1000", "", "", true); return err },
	"enter":   func(r *rwRig) error { _, _, err := r.Acquire(ctx0, r.lease(Fair, 1), "1000", false); return err },
	"queue":   func(r *rwRig) error { _, _, err := r.Acquire(ctx0, r.lease(Fair, 1), "1000", true); return err },
	"force":   func(r *rwRig) error { _, err := r.Force(ctx0, "a"); return err },
	"inspect": func(r *rwRig) error { _, err := r.Inspect(ctx0, "a"); return err },
}

func TestKeyThatIsNoLockIsAnErrorAndStaysAsItIs(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for what, content := range noLocks {
			for call, ask := range asksNoLock {
				for _, expires := range []bool{false, true} {
					r.must("FLUSHALL")
					r.must(content...)
					if expires {
						r.must("PEXPIRE", "a", "60000")
					}
					before := r.whole("a")
					err := ask(r)
					if !errors.Is(err, lockerr.ErrNotLock) || transport.Transient(err) {
						t.Fatalf("%s of a %s: %v", call, what, err)
					}
					if text := err.Error(); !strings.Contains(text, `"a"`) || !strings.Contains(text, "WithPrefix") ||
						strings.Contains(text, "redsync") != !strings.HasPrefix(content[0], "H") {
						t.Fatalf("%s of a %s: %v", call, what, err)
					}
					if got := r.whole("a"); got != before || !slices.Equal(r.keys(), []string{"a"}) {
						t.Fatalf("%s of a %s: it is %q now, with keys %q", call, what, got, r.keys())
					}
				}
			}
		}
	})
}

func TestProbeOfAKeyThatIsNoLockLosesThePlaceOnly(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for what, content := range noLocks {
			r.must("FLUSHALL")
			has(Fair, 1)(r)
			queues(2)(r)
			r.must("DEL", "a")
			r.must(content...)
			before := r.whole("a")
			if got := looks(2)(r); got != "lost" {
				t.Fatalf("a look at a %s: %s", what, got)
			}
			if told, err := r.Release(ctx0, r.lease(Fair, 2), nil); told != 0 || err != nil {
				t.Fatalf("leaving the queue at a %s: %d, %v", what, told, err)
			}
			if got := r.whole("a"); got != before || r.int("EXISTS", "relock_queue:{a}") != 0 {
				t.Fatalf("%s: it is %q now, with keys %q", what, got, r.keys())
			}
		}
	})
}

// Whoever releases a lock leaves the fields that an application has added, and nothing else.
func TestFieldsOfAnApplicationStay(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for _, c := range foreignCases() {
			r.must("FLUSHALL")
			c.before(r)
			if got := c.call(r); got == "no lock" {
				t.Fatalf("%s: it is no lock", c.name)
			}
			hash := r.hash("a")
			if hash["status"] != "paid" {
				t.Fatalf("%s: left %q", c.name, hash)
			}
			delete(hash, "status")
			if ended := strings.HasPrefix(c.name, "release") || strings.HasPrefix(c.name, "force"); ended != (len(hash) == 0) {
				t.Fatalf("%s: left %q", c.name, hash)
			}
		}
	})
}

// A hold id is what it says, and nothing behind it: inspect and unlock of the command show it.
func TestFieldsLikeHoldIDsAreNoHolders(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for what, content := range noLocks {
			if content[0] != "HSET" || len(content) > 16 || strings.Contains(what, "mode") {
				continue // of a large one not all fields are looked at
			}
			r.must("FLUSHALL")
			r.must(content...)
			before := r.hash("a")
			r.must("HSET", "a", uuid+":-57", "1")
			in, err := r.Inspect(ctx0, "a")
			if err != nil || len(in.Fields) != 1 || in.Fields[uuid+":-57"] != 1 {
				t.Fatalf("%s: inspect = %q, %v", what, in.Fields, err)
			}
			if was, err := r.Force(ctx0, "a"); !was || err != nil || !maps.Equal(r.hash("a"), before) {
				t.Fatalf("%s: force = %v, %v, left %q", what, was, err, r.hash("a"))
			}
		}
	})
}

// What Redisson's locks look like is never taken for data.
func TestLocksOfRedissonAreLocks(t *testing.T) {
	const client = "4f1b9a52-8d9e-4c55-9d0c-0123456789ab"
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for what, fields := range map[string]map[string]string{
			"RLock":                  {client + ":57": "2"},
			"negative thread id":     {client + ":-8057246411935481937": "1"},
			"read lock":              {"mode": "read", client + ":57": "1", client + ":58": "1"},
			"write lock":             {"mode": "write", client + ":57:write": "1"},
			"both sides":             {"mode": "write", client + ":57:write": "1", client + ":57": "1"},
			"with a field added":     {client + ":57": "1", "status": "paid"},
			"upper case":             {strings.ToUpper(client) + ":57": "1"},
			"read lock, field added": {"mode": "read", client + ":57": "1", "status": "paid"},
		} {
			for call, ask := range asksNoLock {
				r.must("FLUSHALL")
				for field, value := range fields {
					r.must("HSET", "a", field, value)
				}
				r.must("PEXPIRE", "a", "30000")
				if err := ask(r); err != nil {
					t.Fatalf("%s of a %s: %v", call, what, err)
				}
				if holds := len(fields); call == "inspect" {
					in, _ := r.Inspect(ctx0, "a")
					if _, ok := fields["status"]; ok {
						holds--
					}
					if _, shown := in.Fields["status"]; shown || len(in.Fields) != holds {
						t.Fatalf("inspect of a %s: %v", what, in.Fields)
					}
				}
			}
		}
	})
}

// A lock with very many readers is one, although only some of its fields are looked at.
func TestLockWithManyReadersAndAFieldOfAnApplicationIsALock(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for n := range 1000 {
			r.must("HSET", "a", "mode", "read", id(fmt.Sprint("j:", n)), "1")
		}
		r.must("HSET", "a", "status", "paid")
		r.must("PEXPIRE", "a", "60000")
		r.refused(r.writer(1), 0, time.Minute)
		if _, _, err := r.ask(r.lease(Plain, 2)); err != nil {
			t.Fatal(err)
		}
	})
}

// Keys of relock's own beside the lock that have another type are an error that names them.
func TestKeyOfAnotherTypeBesideALockIsNamed(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for key, calls := range map[string][]string{
			"relock_fence:{a}": {"acquire", "write", "enter", "queue"}, "relock_queue:{a}": {"enter", "queue", "inspect"},
			rwQueue: {"read", "write"},
		} {
			for _, call := range calls {
				r.must("FLUSHALL")
				r.must("RPUSH", key, "x")
				err := asksNoLock[call](&rwRig{rig: r.rig, name: "a"})
				if !errors.Is(err, lockerr.ErrNotLock) || transport.Transient(err) || !strings.Contains(err.Error(), key) {
					t.Fatalf("%s with a list at %s: %v", call, key, err)
				}
				if r.int("EXISTS", "a") != 0 {
					t.Fatalf("%s with a list at %s acquired", call, key)
				}
			}
		}
	})
}

// Older permissions do not include HRANDFIELD. Then a hash counts as taken, and is not deleted.
func TestWithoutHRANDFIELDAHashIsTaken(t *testing.T) {
	r := NewRig(t)
	r.must("ACL", "SETUSER", "default", "-hrandfield")
	r.must("HSET", "a", "status", "paid")
	if token, _, err := r.ask(plainLease("a", 1)); token != 0 || err != nil {
		t.Fatalf("acquire = %d, %v", token, err)
	}
	if _, err := r.Force(ctx0, "a"); !errors.Is(err, lockerr.ErrNotLock) || !maps.Equal(r.hash("a"), map[string]string{"status": "paid"}) {
		t.Fatalf("force: %v, left %q", err, r.hash("a"))
	}
}
