package wire

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

var (
	luaFiles = os.DirFS("../../lua")
	scripts  = func() *Scripts {
		s, err := LoadScripts(luaFiles)
		if err != nil {
			panic(err)
		}
		return s
	}()
	ctx0 = context.Background()
)

// session returns the id of a session that tests call by a short name.
func session(short string) string {
	return fmt.Sprintf("%08x-0000-8000-8000-000000000000", []byte(short))
}

// id returns the hold id that tests write as "<short name of the session>:<n>".
func id(short string) string {
	name, n, _ := strings.Cut(short, ":")
	return session(name) + ":" + n
}

// redissonID is a hold id of a client of Redisson, whose UUIDs are of version 4.
const redissonID = "6a7f3c52-0b1d-4e8f-9a3b-5c2d1e0f4a6b:7"

// A rig is a protocol on a server of its own, for tests of what is sent and stored. Most use one lock; its name is "a".
type rig struct {
	*Protocol
	t      testing.TB
	name   string
	mini   bool
	goesOn func() // starts the clock of miniredis
}

// onRigs runs a test on a real server, and on miniredis, whose keys do not expire and whose clock stands still: what
// starts together ends together, as on a real server, however slow the machine is.
func onRigs(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		f(t, newRig(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		m, client := redistest.Mini(t)
		m.SetTime(time.Now())
		r := rigOn(t, client)
		r.mini, r.goesOn = true, func() { m.SetTime(time.Time{}) }
		f(t, r)
	})
}

func newRig(t testing.TB, args ...string) *rig {
	t.Helper()
	return rigOn(t, redistest.Start(t, args...).Client(t))
}

func rigOn(t testing.TB, client rueidis.Client) *rig {
	conn := transport.NewConn(client, 0, 0, new(sync.WaitGroup))
	return &rig{Protocol: NewProtocol(conn, scripts, GrantMost), t: t, name: "a", goesOn: func() {}}
}

// Do runs a command.
func (r *rig) Do(args ...string) rueidis.RedisResult {
	return r.Client.Do(ctx0, r.Client.B().Arbitrary(args...).Build())
}

// must runs a command that may not fail.
func (r *rig) must(args ...string) rueidis.RedisMessage {
	r.t.Helper()
	m, err := r.Do(args...).ToMessage()
	if !rueidis.IsRedisNil(err) {
		require.NoError(r.t, err, "%q", args)
	}
	return m
}

func (r *rig) int(args ...string) int64 {
	r.t.Helper()
	m := r.must(args...)
	n, err := m.AsInt64()
	require.NoError(r.t, err, "%q", args)
	return n
}

func (r *rig) text(args ...string) string {
	r.t.Helper()
	m := r.must(args...)
	s, _ := m.ToString()
	return s
}

func (r *rig) texts(args ...string) []string {
	r.t.Helper()
	m := r.must(args...)
	all, err := m.AsStrSlice()
	require.NoError(r.t, err, "%q", args)
	return all
}

// hash returns a hash as it is stored.
func (r *rig) hash(key string) map[string]string {
	r.t.Helper()
	m := r.must("HGETALL", key)
	h, err := m.AsStrMap()
	require.NoError(r.t, err)
	return h
}

// pttl returns the time to live of a key as Redis tells it.
func (r *rig) pttl(key string) time.Duration {
	r.t.Helper()
	return time.Duration(r.int("PTTL", key)) * time.Millisecond
}

// keys returns all keys in order.
func (r *rig) keys() []string {
	r.t.Helper()
	return slices.Sorted(slices.Values(r.texts("KEYS", "*")))
}

// kinds are all types and sides of locks.
var kinds = []Kind{Plain, Fair, Write, Read}

// newLease returns the n-th hold of session "s", not held yet.
func newLease(k Kind, name string, n int) *Ref {
	keys := NewKeys(k, name)
	l := &Ref{Keys: &keys, Kind: k, ID: id(fmt.Sprint("s:", n)), Length: 30 * time.Second, GrantFor: GrantMost}
	switch k {
	case Write:
		l.ID += ":write"
	case Semaphore:
		l.Permits = 2
	}
	return l
}

func (r *rig) lease(k Kind, n int) *Ref { return newLease(k, r.name, n) }
func (r *rig) reader(n int) *Ref        { return r.lease(Read, n) }
func (r *rig) writer(n int) *Ref        { return r.lease(Write, n) }

// of returns l as a hold of another session.
func of(short string, l *Ref) *Ref {
	l.ID = strings.Replace(l.ID, session("s"), session(short), 1)
	return l
}

// try asks for a lock, and queues if it may.
func (r *rig) try(l *Ref, wait bool) (reply int64, ttl time.Duration, err error) {
	return r.ask(l, Ask{Queue: wait})
}

// ask asks for a lock. It returns the token, or the reply to a reader, or 0 and how long to wait.
func (r *rig) ask(l *Ref, a Ask) (reply int64, ttl time.Duration, err error) {
	a.LeaseMS = Millis(l.Length)
	answer, err := r.Acquire(ctx0, l, a)
	return max(answer.Token, int64(answer.Read)), answer.Wait, err
}

// take acquires what must be free. It returns the token; of a reader, the reply.
func (r *rig) take(l *Ref) int64 {
	r.t.Helper()
	reply, ttl, err := r.try(l, false)
	require.NoError(r.t, err)
	require.Positive(r.t, reply, "%s is taken for %v", l.ID, ttl)
	return reply
}

// reads asks for the read side and must get that reply.
func (r *rig) reads(l *Ref, want ReadReply) {
	r.t.Helper()
	reply, ttl, err := r.try(l, false)
	require.NoError(r.t, err)
	require.EqualValues(r.t, want, reply, "read %s: %v", l.ID, ttl)
}

// under asks for the read side under the write hold of the same owner.
func (r *rig) under(l, writer *Ref) ReadReply {
	r.t.Helper()
	reply, _, err := r.ask(l, Ask{Writer: writer.ID})
	require.NoError(r.t, err)
	return ReadReply(reply)
}

// join asks for by, a reader of the same process, whether it may join l.
func (r *rig) join(l, by *Ref, wait bool) ReadReply {
	r.t.Helper()
	reply, _, err := r.ask(by, Ask{Join: l.ID, Queue: wait})
	require.NoError(r.t, err)
	return ReadReply(reply)
}

// refused asks for a lock, queues, and must not get it; the wait it is told must be in the given range.
func (r *rig) refused(l *Ref, from, to time.Duration) {
	r.t.Helper()
	reply, ttl, err := r.try(l, true)
	require.NoError(r.t, err)
	if reply != 0 || ttl < from || ttl > to {
		r.t.Fatalf("%s = %d, %v; want to wait from %v to %v", l.ID, reply, ttl, from, to)
	}
}

// queues asks for a lock and must get a place in the queue.
func (r *rig) queues(ls ...*Ref) {
	r.t.Helper()
	for _, l := range ls {
		r.refused(l, 0, time.Minute)
	}
}

// end releases what must be held, or waited for.
func (r *rig) end(ls ...*Ref) {
	r.t.Helper()
	for _, l := range ls {
		told, err := r.Release(ctx0, l)
		require.NoError(r.t, err)
		require.GreaterOrEqual(r.t, told, int64(0), "release of %s", l.ID)
	}
}

// gone releases what must not be there.
func (r *rig) gone(ls ...*Ref) {
	r.t.Helper()
	for _, l := range ls {
		told, err := r.Release(ctx0, l)
		require.NoError(r.t, err)
		require.EqualValues(r.t, -1, told, "release of %s", l.ID)
	}
}

// renews renews holds, none of which may be gone.
func (r *rig) renews(ls ...*Ref) {
	r.t.Helper()
	for i, got := range r.Renew(ctx0, ls) {
		require.Equal(r.t, renewed{}, got, ls[i].ID)
	}
}

// look looks after waiters and returns the replies.
func (r *rig) look(ls ...*Ref) []int64 {
	r.t.Helper()
	replies, errs := r.Poll(ctx0, ls)
	for _, err := range errs {
		require.NoError(r.t, err)
	}
	return replies
}

// looksFor looks after a waiter, and must get that reply; 0: it waits.
func (r *rig) looksFor(want int64, l *Ref) {
	r.t.Helper()
	got := r.look(l)[0]
	if want == 0 && got < 0 && got > Theirs {
		return
	}
	require.Equal(r.t, want, got, "look of %s", l.ID)
}

// redissonHas takes a lock as Redisson does.
func (r *rig) redissonHas(k Kind, lease time.Duration) {
	r.t.Helper()
	if k == Write {
		r.must("HSET", r.name, "mode", "write", redissonID+":write", "1")
	} else {
		r.must("HSET", r.name, redissonID, "1")
	}
	r.must("PEXPIRE", r.name, Millis(lease))
}

// redissonReads takes the read side as Redisson does, so many times, but takes no time for it: a
// key that ends 2 ms before or after the lock is not taken for what keeps the lock.
func (r *rig) redissonReads(id string, count int, lease time.Duration) {
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
func (r *rig) redissonRenews(lease time.Duration) { r.must("PEXPIRE", r.name, Millis(lease)) }

// timeoutOf returns the n-th key of a reader of the lock "a".
func timeoutOf(short string, n int) string {
	return fmt.Sprint("{a}:", id(short), ":rwlock_timeout:", n)
}

const (
	plainQueue   = "relock_queue:{a}"
	rwQueue      = "relock_rwqueue:{a}"
	rwSeen       = "relock_seen:{a}"
	yieldKey     = "relock_yield:{a}"
	fenceKey     = "relock_fence:{a}"
	rwReaders    = "relock_readers:{a}"
	plainChannel = "redisson_lock__channel:{a}"
	rwChannel    = "redisson_rwlock:{a}"
)

var sessionChannel = PrefixSession + session("s")

// yields stores whose turn it is, as lua/lib/turns.lua does, at a time from now by the server's clock.
func (r *rig) yields(what string, at time.Duration) {
	r.t.Helper()
	now := r.texts("TIME")
	seconds, _ := strconv.ParseInt(now[0], 10, 64)
	micros, _ := strconv.ParseInt(now[1], 10, 64)
	then := time.Unix(seconds, micros*1000).Add(at).UnixMilli()
	text := fmt.Sprint(what, " ", then, " 8 ", then)
	if what == "ours" {
		text = "ours 8 8 0"
	}
	r.must("SET", "relock_yield:{"+r.name+"}", text, "PX", "30000")
}

// mustNear checks that a time to live has just been set.
func (r *rig) mustNear(what string, got, set time.Duration) {
	r.t.Helper()
	if got > set || got < set-10*time.Second {
		r.t.Fatalf("%s = %v, want %v or a little less", what, got, set)
	}
}

// held checks who has the lock, all of one kind but for readers under a write hold.
func (r *rig) held(ls ...*Ref) {
	r.t.Helper()
	want := make(map[string]string)
	for _, l := range ls {
		want[l.ID] = "1"
		if l.Kind == Write || l.Kind == Read && want["mode"] == "" {
			want["mode"] = map[Kind]string{Write: "write", Read: "read"}[l.Kind]
		}
	}
	require.Equal(r.t, want, r.hash(r.name))
}

// mustRead checks who reads, how many times each.
func (r *rig) mustRead(want map[string]string) {
	r.t.Helper()
	want["mode"] = "read"
	require.Equal(r.t, want, r.hash(r.name))
}

// mustKeys checks what keys there are, but for the fence and what is left to Redisson.
func (r *rig) mustKeys(want ...string) {
	r.t.Helper()
	got := slices.DeleteFunc(r.keys(), func(k string) bool { return k == fenceKey || k == yieldKey })
	require.ElementsMatch(r.t, want, got)
}

// mustQueue checks who queues for the read-write lock: first those who stand back, then the others in order. At 0
// would be who was granted the lock.
func (r *rig) mustQueue(want ...*Ref) {
	r.t.Helper()
	got := append(r.texts("ZRANGEBYSCORE", rwQueue, "-inf", "(0"), r.texts("ZRANGEBYSCORE", rwQueue, "(0", "+inf")...)
	ids := []string{}
	for _, l := range want {
		ids = append(ids, l.ID)
	}
	require.Equal(r.t, ids, got)
}

// mustList checks how many readers the list has.
func (r *rig) mustList(want int64) {
	r.t.Helper()
	require.Equal(r.t, want, r.int("ZCARD", rwReaders))
}

// listen subscribes channels and returns a function that takes the next message, as
// "channel message".
func (r *rig) listen(channels ...string) func() string {
	r.t.Helper()
	conn, put := r.Client.Dedicate()
	r.t.Cleanup(put)
	messages := make(chan string, 1000)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		if !strings.HasPrefix(m.Message, "wanted ") { // those, and the + of grants, test/virtual has
			messages <- m.Channel + " " + strings.Replace(m.Message, " +", " ", 1)
		}
	}})
	require.NoError(r.t, conn.Do(ctx0, conn.B().Subscribe().Channel(channels...).Build()).Error())
	return func() string {
		r.t.Helper()
		select {
		case m := <-messages:
			return m
		case <-time.After(10 * time.Second):
			r.t.Fatal("no message")
			return ""
		}
	}
}

// present has session "s" listen to its grants, and returns a function that takes the next message.
func (r *rig) present(more ...string) func() string {
	r.t.Helper()
	return r.listen(append(more, sessionChannel)...)
}

// granted returns the message of a grant.
func granted(l *Ref, token int64) string {
	return fmt.Sprintf("%s granted %s %d 5000 %s", sessionChannel, l.ID, token, l.Keys.Name)
}

// mustMessages checks that these messages come next, and none between them; the last
// is published here.
func (r *rig) mustMessages(next func() string, channel string, want ...string) {
	r.t.Helper()
	r.must("PUBLISH", channel, "that is all")
	for _, w := range append(want, channel+" that is all") {
		require.Equal(r.t, w, next())
	}
}
