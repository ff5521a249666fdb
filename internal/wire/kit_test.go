package wire

import (
	"context"
	"fmt"
	"os"
	"slices"
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
	server *redistest.Server // nil: miniredis
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
	server := redistest.Start(t, args...)
	r := rigOn(t, server.Client(t))
	r.server = server
	return r
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

// kinds are all types and sides of locks, without semaphores.
var kinds = []Kind{Plain, Fair, Write, Read}

// newLease returns the n-th hold of session "s", not held yet.
func newLease(k Kind, name string, n int) *Ref {
	keys := NewKeys(k, name)
	l := &Ref{
		Keys: &keys, Kind: k, ID: id(fmt.Sprint("s:", n)) + k.Suffix(), Length: 30 * time.Second, GrantFor: GrantMost,
		Renewed: true,
	}
	if k == Semaphore {
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

// ask asks for a lock.
func (r *rig) ask(l *Ref, a Ask) (Reply, error) {
	a.LeaseMS = Millis(l.Length)
	return r.Acquire(ctx0, l, a)
}

// tries asks for a lock, and does not queue.
func (r *rig) tries(l *Ref) Reply {
	r.t.Helper()
	reply, err := r.ask(l, Ask{})
	require.NoError(r.t, err)
	return reply
}

// asks asks for a lock, and queues.
func (r *rig) asks(l *Ref) Reply {
	r.t.Helper()
	reply, err := r.ask(l, Ask{Queue: true})
	require.NoError(r.t, err)
	return reply
}

// take acquires a lock that must be free, and returns the token.
func (r *rig) take(l *Ref) int64 {
	r.t.Helper()
	reply := r.tries(l)
	require.True(r.t, reply.Granted, "%s is taken for %v", l.ID, reply.Wait)
	return reply.Token
}

// under asks for the read side under the write hold of the same owner, and must get it.
func (r *rig) under(l, writer *Ref) {
	r.t.Helper()
	reply, err := r.ask(l, Ask{Writer: writer.ID})
	require.NoError(r.t, err)
	require.Equal(r.t, ReadHeld, reply.Read)
}

// refused asks for a lock, queues, and must not get it. The wait that it is told must be in the given range.
func (r *rig) refused(l *Ref, from, to time.Duration) Reply {
	r.t.Helper()
	reply := r.asks(l)
	if reply.Granted || reply.Wait < from || reply.Wait > to {
		r.t.Fatalf("%s: %+v; want to wait from %v to %v", l.ID, reply, from, to)
	}
	return reply
}

// queues asks for locks and must get entries in the queue.
func (r *rig) queues(ls ...*Ref) {
	r.t.Helper()
	for _, l := range ls {
		r.refused(l, 0, time.Minute)
	}
}

// end releases holds, or removes entries, that must be there.
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

// polls polls for waiters in one script, and returns the reply to the first.
func (r *rig) polls(ls ...*Ref) Reply {
	r.t.Helper()
	replies, errs := r.Poll(ctx0, ls)
	for _, err := range errs {
		require.NoError(r.t, err)
	}
	return replies[0]
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

// redissonReads takes the read side as Redisson does.
func (r *rig) redissonReads(lease time.Duration) {
	r.t.Helper()
	r.must("HSET", r.name, "mode", "read", redissonID, "1")
	r.must("SET", "{"+r.name+"}:"+redissonID+":rwlock_timeout:1", "1", "PX", Millis(lease))
	r.must("PEXPIRE", r.name, Millis(lease))
}

const (
	plainQueue   = "relock_queue:{a}"
	writeQueue   = "relock_rwqueue:{a}"
	readQueue    = "relock_rdqueue:{a}"
	fenceKey     = "relock_fence:{a}"
	plainChannel = "redisson_lock__channel:{a}"
	rwChannel    = "redisson_rwlock:{a}"
)

var sessionChannel = PrefixSession + session("s")

// timeoutOf returns the key of a reader of the lock "a".
func timeoutOf(short string) string { return "{a}:" + id(short) + ":rwlock_timeout:1" }

// queueOfKind returns the queue in which holds of a kind wait.
func queueOfKind(k Kind) string {
	return map[Kind]string{Plain: plainQueue, Fair: plainQueue, Semaphore: plainQueue, Write: writeQueue, Read: readQueue}[k]
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

// mustKeys checks what keys there are, but for the fence.
func (r *rig) mustKeys(want ...string) {
	r.t.Helper()
	got := slices.DeleteFunc(r.keys(), func(k string) bool { return k == fenceKey })
	require.ElementsMatch(r.t, want, got)
}

// mustQueue checks who waits in a queue, in order.
func (r *rig) mustQueue(key string, want ...*Ref) {
	r.t.Helper()
	entries := []string{}
	for _, l := range want {
		entries = append(entries, l.Kind.of().entry(l))
	}
	require.Equal(r.t, entries, r.texts("ZRANGE", key, "0", "-1"))
}

// hears subscribes channels and returns a function that takes the next message of those that are wanted, as
// "channel message".
func (r *rig) hears(wanted func(message string) bool, channels ...string) func() string {
	r.t.Helper()
	conn, put := r.Client.Dedicate()
	r.t.Cleanup(put)
	messages := make(chan string, 1000)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		if wanted(m.Message) {
			messages <- m.Channel + " " + m.Message
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

// listen takes all messages but those that a lock is wanted.
func (r *rig) listen(channels ...string) func() string {
	r.t.Helper()
	return r.hears(func(m string) bool { return !strings.HasPrefix(m, "wanted ") }, channels...)
}

// present has sessions listen to their grants, and returns a function that takes the next message.
func (r *rig) present(shorts ...string) func() string {
	r.t.Helper()
	var channels []string
	for _, short := range shorts {
		channels = append(channels, PrefixSession+session(short))
	}
	return r.listen(channels...)
}

// lastToken returns the last fencing token of the lock "a".
func (r *rig) lastToken() (token int64) {
	r.t.Helper()
	_, err := fmt.Sscan(r.text("GET", fenceKey), &token)
	require.NoError(r.t, err)
	return token
}

// granted returns the message of a grant; behind is a plus sign if others wait.
func granted(l *Ref, token int64, behind string) string {
	return fmt.Sprintf("%s granted %s %d %s5000 %s", PrefixSession+l.ID[:36], l.ID, token, behind, l.Keys.Name)
}

// polled returns the message that has waiters poll.
func polled(ls ...*Ref) string {
	text := PrefixSession + ls[0].ID[:36] + " poll"
	for _, l := range ls {
		text += " " + Hint(l.ID)
	}
	return text
}

// mustMessages checks that these messages come next, and none between them; the last is published here.
func (r *rig) mustMessages(next func() string, channel string, want ...string) {
	r.t.Helper()
	r.must("PUBLISH", channel, "that is all")
	for _, w := range append(want, channel+" that is all") {
		require.Equal(r.t, w, next())
	}
}
