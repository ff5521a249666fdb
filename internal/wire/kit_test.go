package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
)

var (
	luaFiles     = os.DirFS("../../lua")
	scripts, bad = LoadScripts(luaFiles)
)

func init() {
	if bad != nil {
		panic(bad)
	}
}

// allScripts returns the scripts by name.
func allScripts() map[string]*transport.Script {
	byName := make(map[string]*transport.Script)
	for _, s := range scripts.All() {
		byName[s.Name] = s
	}
	return byName
}

// luaOf returns the code of these files of the directory lua.
func luaOf(files ...string) (text string) {
	for _, file := range files {
		content, err := fs.ReadFile(luaFiles, file)
		if err != nil {
			panic(err)
		}
		for line := range strings.Lines(string(content)) {
			text += code(line)
		}
	}
	return text
}

// session returns the id of a session that tests call by a short name.
func session(short string) string {
	return fmt.Sprintf("%08x-0000-8000-8000-000000000000", []byte(short))
}

// id returns the hold id that tests write as "<short name of the session>:<n>".
func id(short string) string {
	name, n, _ := strings.Cut(short, ":")
	return session(name) + ":" + n
}

// rig is a protocol on a server of its own, for tests of what is sent and stored.
type rig struct {
	*Protocol
	t    testing.TB
	mini bool
	runs func() int64 // how many scripts the server has run; not on miniredis

	// still stops the clock of miniredis until goesOn. Its keys do not expire, but it computes what
	// is left of a lease by that clock.
	still, goesOn func()
}

// onRigs runs a test on a real server and on miniredis, whose keys do not expire and
// whose clock is the machine's.
func onRigs(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		f(t, NewRig(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		m, client := redistest.Mini(t)
		r := rigOn(t, client)
		r.mini = true
		r.still, r.goesOn = func() { m.SetTime(time.Now()) }, func() { m.SetTime(time.Time{}) }
		f(t, r)
	})
}

func NewRig(t testing.TB, args ...string) *rig {
	t.Helper()
	s := redistest.Start(t, args...)
	r := rigOn(t, s.Client(t))
	r.still, r.goesOn = func() {}, func() {}
	r.runs = func() (n int64) {
		stats := s.CommandStats()
		for _, name := range []string{"eval", "evalsha"} {
			n += stats[name]
		}
		return n
	}
	return r
}

func rigOn(t testing.TB, client rueidis.Client) *rig {
	r := &rig{t: t}
	r.Protocol = NewProtocol(transport.NewConn(client, 0, 0, new(sync.WaitGroup)), scripts, ClaimMost)
	return r
}

var ctx0 = context.Background()

// Do runs a command.
func (r *rig) Do(args ...string) rueidis.RedisResult {
	return r.Client.Do(ctx0, r.Client.B().Arbitrary(args...).Build())
}

// must runs a command that may not fail.
func (r *rig) must(args ...string) rueidis.RedisMessage {
	r.t.Helper()
	m, err := r.Do(args...).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		r.t.Fatalf("%q: %v", args, err)
	}
	return m
}

func (r *rig) int(args ...string) int64 {
	r.t.Helper()
	m := r.must(args...)
	n, err := m.AsInt64()
	if err != nil {
		r.t.Fatalf("%q: %v", args, err)
	}
	return n
}

func (r *rig) text(args ...string) string {
	r.t.Helper()
	m := r.must(args...)
	s, _ := m.ToString()
	return s
}

// hash returns a hash as it is stored.
func (r *rig) hash(key string) map[string]string {
	r.t.Helper()
	m := r.must("HGETALL", key)
	h, err := m.AsStrMap()
	if err != nil {
		r.t.Fatalf("HGETALL %s: %v", key, err)
	}
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
	m := r.must("KEYS", "*")
	ks, _ := m.AsStrSlice()
	slices.Sort(ks)
	return ks
}

// plainLease returns the n-th lease of a Mutex, not acquired.
func plainLease(name string, n int) *Ref {
	k := NewKeys(Plain, name)
	return &Ref{Keys: &k, ID: id(fmt.Sprint("s:", n)), Length: 30 * time.Second, Claim: ClaimMost}
}

// take acquires with the protocol what must be free.
func (r *rig) take(l *Ref) int64 {
	r.t.Helper()
	token, ttl, err := r.ask(l)
	if err != nil || token <= 0 {
		r.t.Fatalf("acquire of %s = %d, %v, %v", l.Keys.Name, token, ttl, err)
	}
	return token
}

func (r *rig) ask(l *Ref) (token int64, ttl time.Duration, err error) {
	return r.Acquire(ctx0, l, Millis(l.Length), false)
}

// end releases with the protocol what must be held.
func (r *rig) end(l *Ref) {
	r.t.Helper()
	if told, err := r.Release(ctx0, l, nil); told < 0 || err != nil {
		r.t.Fatalf("release of %s = %d, %v", l.Keys.Name, told, err)
	}
}

// mustNear checks that a time to live has just been set.
func (r *rig) mustNear(what string, got, set time.Duration) {
	r.t.Helper()
	if got > set || got < set-10*time.Second {
		r.t.Fatalf("%s = %v, want %v or a little less", what, got, set)
	}
}

// mustBeWrongType checks for the error that ends a call at once. miniredis hides its
// code in the text.
func (r *rig) mustBeWrongType(what string, err error) {
	r.t.Helper()
	code, ok := transport.Code(err)
	var reply *rueidis.RedisError
	if !ok || transport.Transient(err) || code != "WRONGTYPE" && code != CodeNotLock &&
		(!r.mini || !errors.As(err, &reply) || !strings.Contains(reply.Error(), "WRONGTYPE")) {
		r.t.Fatalf("%s: error %v, want WRONGTYPE", what, err)
	}
}

// forgetScripts makes the next EVALSHA fail with NOSCRIPT.
func (r *rig) forgetScripts() {
	r.t.Helper()
	r.must("SCRIPT", "FLUSH")
}

// listen subscribes channels and returns a function that takes the next message, as
// "channel message".
func (r *rig) listen(channels ...string) func() string {
	r.t.Helper()
	conn, put := r.Client.Dedicate()
	r.t.Cleanup(put)
	messages := make(chan string, 1000)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		messages <- m.Channel + " " + m.Message
	}})
	if err := conn.Do(ctx0, conn.B().Subscribe().Channel(channels...).Build()).Error(); err != nil {
		r.t.Fatal(err)
	}
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

// mustMessages checks that these messages come next, and none between them; the last
// is published here.
func (r *rig) mustMessages(next func() string, channel string, want ...string) {
	r.t.Helper()
	r.must("PUBLISH", channel, "that is all")
	for _, w := range append(want, channel+" that is all") {
		if got := next(); got != w {
			r.t.Fatalf("message %q, want %q", got, w)
		}
	}
}
