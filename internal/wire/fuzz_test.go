package wire

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
)

// Whatever name passes the check has all its keys and channels in one slot, none of them is that of
// another kind, and no script takes one for another.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"a", "{a}", "a{b}c", "{a", "a}", "{}", "{}a{b}", "redisson", "a:b", " ", "\x00", "{a}:"} {
		f.Add("", name)
		f.Add("shop:", name)
		f.Add("{shop}:", name)
	}
	f.Fuzz(func(t *testing.T, prefix, name string) {
		if CheckPrefix(prefix) != nil || CheckName(prefix, name) != nil {
			return
		}
		key := prefix + name
		for _, kind := range Kinds() {
			k := NewKeys(kind, key)
			seen := make(map[string]bool)
			for _, other := range []string{k.Name, k.fence, k.queue, k.readers, k.timeout("id")} {
				if kind != Read && kind != Write && (other == k.readers || other == k.timeout("id")) {
					continue
				}
				if seen[other] {
					t.Errorf("%v: two keys of %q are %q", kind, key, other)
				}
				seen[other] = true
			}
			for other := range seen {
				if redistest.Slot(other) != redistest.Slot(key) {
					t.Errorf("%v: %q is in another slot than %q", kind, other, key)
				}
			}
		}
	})
}

// A text is a ticket or not, and a ticket is read as it was written.
func FuzzTickets(f *testing.F) {
	const session = "cd357a86-0f84-8b7b-9982-32970a0b4d0a"
	f.Add("", "a", session, int64(1))
	f.Add("shop:", "{a}", session, int64(-1))
	f.Add("shop:", "a", "nobody", int64(1<<62))
	f.Fuzz(func(t *testing.T, prefix, name, session string, until int64) {
		for _, text := range []string{prefix, name, session, ticketHead + name} {
			if _, err := ReadTicket(text); err != nil && (err != ErrTicket || strings.Contains(err.Error(), text) && len(text) > 8) {
				t.Errorf("%q: %v", text, err)
			}
		}
		if len(prefix)+len(name) > maxName || len(session) != sessionSize || name == "" {
			return
		}
		made := NewTicket(prefix, name, session)
		made.Until = until
		if !IsHoldID(made.HoldID()) {
			return
		}
		read, err := ReadTicket(made.Text())
		if err != nil || *read != *made {
			t.Errorf("%+v is read as %+v: %v", made, read, err)
		}
		text := made.Text()
		if _, err := ReadTicket(text[:len(text)-1]); err == nil {
			t.Errorf("a part of %q is a ticket", text)
		}
	})
}

// Whatever Redis replies, the reply of each kind is granted or not, and says for how long.
func FuzzReplies(f *testing.F) {
	for _, n := range []int64{gone, tokenless, -1, 0, 1, 2, 3, 4, 1 << 52} {
		f.Add(n, int64(5000), int64(1))
		f.Add(n, int64(-5000), int64(0))
	}
	f.Fuzz(func(t *testing.T, n, x, y int64) {
		for _, kind := range Kinds() {
			r := kind.of().reply(new(Ref), n, x, y)
			if r.Granted != (n > 0) {
				t.Errorf("%v: %d, %d, %d: %+v", kind, n, x, y, r)
			}
			if r.Granted && r.Gone || r.Token < 0 || r.Token > 0 && kind.Joins() {
				t.Errorf("%v: %d, %d, %d: %+v", kind, n, x, y, r)
			}
		}
	})
}

// Whatever somebody else has written to the keys of a lock, scripts run to their end: they acquire,
// wait, or say what is wrong. What is not a lock stays as it is.
func FuzzForeignKeys(f *testing.F) {
	held := session("z") + ":1"
	for _, value := range []string{"", "1", held, "\x00\xff"} {
		for kind := range byte(4) {
			f.Add(kind, held, value, value, value, 1.5)
			f.Add(kind, "mode", value, "12 "+held+" a note", held+" 99", -5.0)
			f.Add(kind, "permits", value, "7 readers 1", "redisson", 1e18)
		}
	}
	rigs := newRig(f)
	f.Fuzz(func(t *testing.T, kind byte, field, value, fence, entry string, score float64) {
		if math.IsNaN(score) {
			return // which Redis refuses
		}
		r, at := rigs.on(t), strconv.FormatFloat(score, 'g', -1, 64)
		for _, k := range Kinds() {
			r.must("FLUSHALL")
			switch kind % 4 {
			case 0:
				r.must("HSET", "a", field, value)
			case 1:
				r.must("SET", "a", value)
			case 2:
				r.must("ZADD", "a", at, field)
			case 3:
				r.must("RPUSH", "a", value)
			}
			r.must("SET", "relock_fence:{a}", fence)
			for _, queue := range []string{plainQueue, queueOfKind(k)} {
				r.must("ZADD", queue, at, entry)
			}
			before := r.whole("a")
			l := r.lease(k, 1)
			reply, err := r.ask(l, Ask{Queue: true})
			code, _ := transport.Code(err)
			if err != nil && code != CodeNotLock {
				t.Fatalf("%v, acquired: %v", k, err)
			}
			if err != nil && r.whole("a") != before {
				t.Fatalf("%v: what is not a lock was %s, and is %s", k, before, r.whole("a"))
			}
			_, err = r.Release(ctx0, l)
			if code, _ := transport.Code(err); err != nil && code != CodeNotLock && code != "WRONGTYPE" {
				t.Fatalf("%v, released, after %+v: %v", k, reply, err)
			}
			if _, err := r.Inspect(ctx0, "a"); err != nil && !errors.Is(err, lockerr.ErrNotLock) {
				t.Fatalf("inspected: %v", err)
			}
		}
	})
}
