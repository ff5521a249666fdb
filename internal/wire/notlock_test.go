package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

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
	"acquire": func(r *rig) error { _, err := r.ask(r.lease(Plain, 1), Ask{}); return err },
	"write":   func(r *rig) error { _, err := r.ask(r.writer(1), Ask{Queue: true}); return err },
	"read":    func(r *rig) error { _, err := r.ask(r.reader(1), Ask{Queue: true}); return err },
	"queue":   func(r *rig) error { _, err := r.ask(r.lease(Fair, 1), Ask{Queue: true}); return err },
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

func TestPollForWhatIsNotALockLosesTheEntryOnly(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for what, content := range noLocks {
			r.must("FLUSHALL")
			has(Fair, 1)(r)
			wants(Fair, 2)(r)
			r.must("DEL", "a")
			r.must(content...)
			before := r.whole("a")
			require.Equal(t, "gone", polls(Fair, 2)(r), what)
			require.Equal(t, "told 0", ends(Fair, 2)(r), "leaving the queue at a %s", what)
			require.Equal(t, before, r.whole("a"), what)
			require.Zero(t, r.int("EXISTS", plainQueue))
		}
	})
}

// What Redisson's locks look like is never taken for data. They are held: nobody gets one, nor ends it.
func TestLocksOfRedissonAreLocks(t *testing.T) {
	many := []string{"mode", "read"}
	for n := range 1000 {
		many = append(many, id(fmt.Sprint("j:", n)), "1")
	}
	onRigs(t, func(t *testing.T, r *rig) {
		for what, fields := range map[string][]string{
			"RLock":              {uuid + ":57", "2"},
			"negative thread id": {uuid + ":-8057246411935481937", "1"},
			"read lock":          {"mode", "read", uuid + ":57", "1", uuid + ":58", "1"},
			"write lock":         {"mode", "write", uuid + ":57:write", "1"},
			"both sides":         {"mode", "write", uuid + ":57:write", "1", uuid + ":57", "1"},
			"upper case":         {strings.ToUpper(uuid) + ":57", "1"},
			"many readers":       many,
		} {
			r.must("FLUSHALL")
			r.must(append([]string{"HSET", "a"}, fields...)...)
			r.must("PEXPIRE", "a", "30000")
			before := r.whole("a")
			for _, k := range kinds {
				if k != Read || fields[1] != "read" {
					require.False(t, r.tries(r.lease(k, 1)).Granted, "%s, kind %d", what, k)
					require.False(t, r.asks(r.lease(k, 1)).Granted, "%s, kind %d", what, k)
					require.Equal(t, "told 0", ends(k, 1)(r), "%s, kind %d: its entry", what, k)
					require.Equal(t, "told -1", ends(k, 1)(r), "%s, kind %d", what, k)
					require.Equal(t, before, r.whole("a"), "%s, kind %d", what, k)
				}
			}
			in, err := r.Inspect(ctx0, "a")
			require.NoError(t, err, what)
			require.Len(t, in.Fields, len(fields)/2, what)
			require.Equal(t, "opened true", forces(r), what)
		}
	})
}

// Keys of relock's own beside the lock that have another type are an error that names them, and nobody has the lock:
// it was taken first once, and stayed held by nobody until its lease ended.
func TestKeyOfAnotherTypeBesideIsNamed(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for key, calls := range map[string][]string{
			fenceKey: {"acquire", "write", "queue"}, plainQueue: {"acquire", "queue", "inspect"},
			writeQueue: {"read", "write", "inspect"}, readQueue: {"read", "write", "inspect"},
		} {
			for _, call := range calls {
				r.must("FLUSHALL")
				r.must("RPUSH", key, "x")
				err := asksNoLock[call](r)
				require.ErrorIs(t, err, lockerr.ErrNotLock, "%s with a list at %s", call, key)
				require.False(t, transport.Transient(err))
				require.ErrorContains(t, err, key)
				require.NotContains(t, r.keys(), "a", "%s with a list at %s", call, key)
			}
		}
	})
}

// Older permissions do not include HRANDFIELD. Then a hash counts as taken, and is not deleted.
func TestWithoutHRANDFIELDAHashIsTaken(t *testing.T) {
	r := newRig(t)
	r.must("ACL", "SETUSER", "default", "-hrandfield")
	r.must("HSET", "a", "status", "paid")
	for _, k := range kinds {
		require.Equal(t, "taken", tries(k, 1)(r))
	}
	require.Equal(t, "not a lock", forces(r))
	require.Equal(t, map[string]string{"status": "paid"}, r.hash("a"))
}

// Who hears that a waiter is to poll cannot tell its hold id, with which a grant could be forged.
func TestPollTellsOnlyAHintOfTheHoldId(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		givesUp, waiter := r.lease(Plain, 2), r.lease(Plain, 3)
		waiter.ID = session("s") + ":1234567890123456789"
		next := r.listen(PrefixSession + session("s"))
		r.take(r.lease(Plain, 1))
		r.queues(givesUp)
		r.queues(waiter)
		r.end(givesUp)
		for {
			if message := next(); strings.Contains(message, " poll ") {
				require.True(t, strings.HasSuffix(message, " poll 1234"), message)
				return
			}
		}
	})
}
