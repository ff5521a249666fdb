package wire

import (
	"fmt"
	"testing"
	"time"
)

// A rwRig is a rig with what read-write locks need. Holds are those of session "s",
// numbered.
type rwRig struct {
	*rig
	name string
}

func onRWRigs(t *testing.T, f func(t *testing.T, r *rwRig)) {
	t.Helper()
	onRigs(t, func(t *testing.T, r *rig) { f(t, &rwRig{r, "a"}) })
}

func (r *rwRig) lease(k Kind, n int) *Ref {
	keys := NewKeys(k, r.name)
	l := &Ref{Keys: &keys, Kind: k, ID: id(fmt.Sprint("s:", n)), Length: 30 * time.Second}
	if k == Write {
		l.ID += ":write"
	}
	return l
}

// reader returns the n-th hold, which is not held yet, of the read side.
func (r *rwRig) reader(n int) *Ref { return r.lease(Read, n) }

// writer does the same for the write side.
func (r *rwRig) writer(n int) *Ref { return r.lease(Write, n) }

// rlock asks for the read side; under is the write hold of the same owner, or nil.
func (r *rwRig) rlock(l, under *Ref, wait bool) (int64, time.Duration) {
	r.t.Helper()
	field := ""
	if under != nil {
		field = under.ID
	}
	reply, ttl, err := r.AcquireRead(ctx0, l, Millis(l.Length), field, wait)
	if err != nil {
		r.t.Fatalf("read %s: %v", l.ID, err)
	}
	return reply, ttl
}

// reads asks for the read side and must get that reply.
func (r *rwRig) reads(l *Ref, want int64) {
	r.t.Helper()
	if reply, ttl := r.rlock(l, nil, false); reply != want {
		r.t.Fatalf("read %s = %d, %v; want %d", l.ID, reply, ttl, want)
	}
}

// lock asks for the write side, and returns the token, 0 if it is taken.
func (r *rwRig) lock(l *Ref, wait bool) (int64, time.Duration) {
	r.t.Helper()
	token, ttl, err := r.Acquire(ctx0, l, Millis(l.Length), wait)
	if err != nil {
		r.t.Fatalf("write %s: %v", l.ID, err)
	}
	return token, ttl
}

// writes asks for the write side and must get it.
func (r *rwRig) writes(l *Ref) int64 {
	r.t.Helper()
	token, ttl := r.lock(l, false)
	if token == 0 {
		r.t.Fatalf("write %s: taken for %v", l.ID, ttl)
	}
	return token
}

// refused asks for either side, waiting, and must not get it; the wait it is told must
// be in the given range.
func (r *rwRig) refused(l *Ref, from, to time.Duration) {
	r.t.Helper()
	var reply int64
	var ttl time.Duration
	if l.Kind == Read {
		reply, ttl = r.rlock(l, nil, true)
	} else {
		reply, ttl = r.lock(l, true)
	}
	if reply != 0 || ttl < from || ttl > to {
		r.t.Fatalf("%s = %d, %v; want to wait from %v to %v", l.ID, reply, ttl, from, to)
	}
}

// confirms asks whether more readers may join l, on behalf of by, and must be told that.
func (r *rwRig) confirms(l, by *Ref, wait bool, want int64) time.Duration {
	r.t.Helper()
	reply, ttl, err := r.ConfirmRead(ctx0, l, by, wait)
	if err != nil || reply != want {
		r.t.Fatalf("confirm %s = %d, %v, %v; want %d", l.ID, reply, ttl, err, want)
	}
	return ttl
}

// gone releases l, which must not be there.
func (r *rwRig) gone(l *Ref) {
	r.t.Helper()
	if told, err := r.Release(ctx0, l, nil); told != -1 || err != nil {
		r.t.Fatalf("release of %s = %d, %v", l.ID, told, err)
	}
}

// redissonReads takes the read side as Redisson does, so many times.
func (r *rwRig) redissonReads(id string, count int, lease time.Duration) {
	r.t.Helper()
	r.must("EVAL", `
redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], ARGV[2])
for n = 1, tonumber(ARGV[2]) do
  redis.call('set', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:' .. n, 1, 'px', ARGV[3])
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then redis.call('pexpire', KEYS[1], ARGV[3]) end
return 1`, "1", r.name, id, fmt.Sprint(count), Millis(lease))
}

// redissonRenews renews the lock, and not the keys of its readers, as Redisson 3.x does
// for all but one of the read locks that it holds.
func (r *rwRig) redissonRenews(lease time.Duration) {
	r.t.Helper()
	r.must("PEXPIRE", r.name, Millis(lease))
}

// renews renews holds, none of which may be gone.
func (r *rwRig) renews(ls ...*Ref) {
	r.t.Helper()
	for i, got := range r.Renew(ctx0, ls) {
		if got.Gone || got.Err != nil {
			r.t.Fatalf("renew %s = %+v", ls[i].ID, got)
		}
	}
}

// redissonWrites takes the write side as Redisson does, so many times.
func (r *rwRig) redissonWrites(id string, count int, lease time.Duration) {
	r.t.Helper()
	r.must("HSET", r.name, "mode", "write", id+":write", fmt.Sprint(count))
	r.must("PEXPIRE", r.name, Millis(lease))
}

// mustKeys checks what keys there are, the fence aside.
func (r *rwRig) mustKeys(want ...string) {
	r.t.Helper()
	var got []string
	for _, k := range r.keys() {
		if k != "relock_fence:{"+r.name+"}" {
			got = append(got, k)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Fatalf("keys %q, want %q", got, want)
	}
}

// mustHash checks the fields of the lock.
func (r *rwRig) mustHash(want map[string]string) {
	r.t.Helper()
	if got := r.hash(r.name); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Fatalf("the lock is %q, want %q", got, want)
	}
}

const (
	rwIntents = "relock_intent:{a}"
	rwReaders = "relock_readers:{a}"
)

// intentsLeft returns how long each intent is valid yet.
func (r *rwRig) intentsLeft() map[string]time.Duration {
	r.t.Helper()
	m := r.must("TIME")
	now, err := m.AsIntSlice()
	if err != nil {
		r.t.Fatal(err)
	}
	left := make(map[string]time.Duration)
	for what, at := range r.hash(rwIntents) {
		var ms int64
		if _, err := fmt.Sscan(at, &ms); err != nil {
			r.t.Fatal(err)
		}
		left[what] = time.Duration(ms-now[0]*1000-now[1]/1000) * time.Millisecond
	}
	return left
}

// mustIntend checks whose intents there are.
func (r *rwRig) mustIntend(want ...string) {
	r.t.Helper()
	left := r.intentsLeft()
	for _, w := range want {
		if left[w] <= 0 || left[w] > IntentValid {
			r.t.Fatalf("intents %v, want %s to be valid", left, w)
		}
	}
	if len(left) != len(want) {
		r.t.Fatalf("intents %v, want %q", left, want)
	}
}
