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

// onRWRigs runs a test as onRigs does. The clock of miniredis stands still: what starts together
// ends together, as on a real server, however slow the machine is.
func onRWRigs(t *testing.T, f func(t *testing.T, r *rwRig)) {
	t.Helper()
	onRigs(t, func(t *testing.T, r *rig) {
		r.still()
		f(t, &rwRig{r, "a"})
	})
}

// kinds are all types and sides of locks.
var kinds = []Kind{Plain, Fair, Write, Read}

func (r *rwRig) lease(k Kind, n int) *Ref {
	keys := NewKeys(k, r.name)
	l := &Ref{Keys: &keys, Kind: k, ID: id(fmt.Sprint("s:", n)), Length: 30 * time.Second, Claim: ClaimMost}
	if k == Write {
		l.ID += ":write"
	}
	return l
}

// reader returns the n-th hold, which is not held yet, of the read side.
func (r *rwRig) reader(n int) *Ref { return r.lease(Read, n) }

// writer does the same for the write side.
func (r *rwRig) writer(n int) *Ref { return r.lease(Write, n) }

// rlock asks for the read side, and queues if it may; under is the write hold of the same owner,
// or nil.
func (r *rwRig) rlock(l, under *Ref, wait bool) (int64, time.Duration) {
	r.t.Helper()
	field := ""
	if under != nil {
		field = under.ID
	}
	reply, ttl, err := r.AcquireRead(ctx0, l, Millis(l.Length), field, "", wait)
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

// refused asks for either side, queues, and must not get it; the wait it is told must be in the
// given range.
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

// joins asks for by, a reader of the same process, whether it may join l, and must be told that.
func (r *rwRig) joins(l, by *Ref, wait bool, want int64) time.Duration {
	r.t.Helper()
	reply, ttl, err := r.AcquireRead(ctx0, by, Millis(by.Length), "", l.ID, wait)
	if err != nil || reply != want {
		r.t.Fatalf("join %s = %d, %v, %v; want %d", l.ID, reply, ttl, err, want)
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

// redissonReads takes the read side as Redisson does, so many times, but takes no time for it: a
// key that ends 2 ms before or after the lock is not taken for what keeps the lock.
func (r *rwRig) redissonReads(id string, count int, lease time.Duration) {
	r.t.Helper()
	r.must("EVAL", `
redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], ARGV[2])
local key = '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:'
redis.call('set', key .. 1, 1, 'px', ARGV[3])
for n = 2, tonumber(ARGV[2]) do
  redis.call('set', key .. n, 1, 'px', redis.call('pttl', key .. 1))
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then redis.call('pexpire', KEYS[1], redis.call('pttl', key .. 1)) end
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

// mustKeys checks what keys there are, but for the fence and what is left to Redisson.
func (r *rwRig) mustKeys(want ...string) {
	r.t.Helper()
	var got []string
	for _, k := range r.keys() {
		if k != "relock_fence:{"+r.name+"}" && k != rwYield {
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
	rwQueue   = "relock_rwqueue:{a}"
	rwSeen    = "relock_seen:{a}"
	rwYield   = "relock_yield:{a}"
	rwReaders = "relock_readers:{a}"
	rwChannel = "redisson_rwlock:{a}"
)

// present has the session called s listen to its grants, and returns a function that takes the next
// message.
func (r *rwRig) present(more ...string) func() string {
	r.t.Helper()
	return r.listen(append(more, "relock_session:"+session("s"))...)
}

// granted returns the message of a grant.
func granted(l *Ref, token int64) string {
	return fmt.Sprintf("relock_session:%s granted %s %d 5000 %s", session("s"), l.ID, token, l.Keys.Name)
}

// mustQueue checks who queues, in order.
func (r *rwRig) mustQueue(want ...*Ref) {
	r.t.Helper()
	m := r.must("ZRANGEBYSCORE", rwQueue, "-inf", "(0")
	got, err := m.AsStrSlice()
	waiting := r.must("ZRANGEBYSCORE", rwQueue, "(0", "+inf") // at 0 is who was granted the lock
	more, _ := waiting.AsStrSlice()
	got = append(got, more...)
	var ids []string
	for _, l := range want {
		ids = append(ids, l.ID)
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(ids) {
		r.t.Fatalf("queue %q, %v; want %q", got, err, ids)
	}
}

// looksFor looks after waiters, and must get that reply for each; 0: they wait.
func (r *rwRig) looksFor(want int64, ls ...*Ref) {
	r.t.Helper()
	replies, errs := r.Probe(ctx0, ls)
	for i, l := range ls {
		got := replies[i]
		if want == 0 && got < 0 && got > Theirs {
			got = 0
		}
		if errs[i] != nil || got != want {
			r.t.Fatalf("look of %s = %d, %v; want %d", l.ID, replies[i], errs[i], want)
		}
	}
}
