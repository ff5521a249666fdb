package relock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/redistest"
)

// rig is a protocol on a server of its own, for tests of what is sent and stored.
type rig struct {
	*protocol
	t    testing.TB
	addr string
	cfg  sessionConfig
	mini bool
	runs func() int64 // how many scripts the server has run; not on miniredis
}

// onRigs runs a test on a real server and on miniredis, whose keys do not expire and
// whose clock is the machine's.
func onRigs(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		f(t, newRig(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		m, client := redistest.Mini(t)
		r := rigOn(t, client, m.Addr())
		r.mini = true
		f(t, r)
	})
}

func newRig(t testing.TB, args ...string) *rig {
	t.Helper()
	s := redistest.Start(t, args...)
	r := rigOn(t, s.Client(t), s.Addr())
	r.runs = func() (n int64) {
		stats := s.CommandStats()
		for _, name := range []string{"eval", "evalsha"} {
			n += stats[name]
		}
		return n
	}
	return r
}

func rigOn(t testing.TB, client rueidis.Client, addr string) *rig {
	r := &rig{t: t, addr: addr, cfg: sessionConfig{lease: 30 * time.Second}}
	r.protocol = newProtocol(client, &r.cfg)
	return r
}

var ctx0 = context.Background()

// do runs a command.
func (r *rig) do(args ...string) rueidis.RedisResult {
	return r.client.Do(ctx0, r.client.B().Arbitrary(args...).Build())
}

// must runs a command that may not fail.
func (r *rig) must(args ...string) rueidis.RedisMessage {
	r.t.Helper()
	m, err := r.do(args...).ToMessage()
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
func plainLease(name string, n int) *lease {
	k := newLockKeys(plain, name)
	return &lease{keys: &k, id: fmt.Sprint("s:", n), length: 30 * time.Second, index: -1}
}

// take acquires with the protocol what must be free.
func (r *rig) take(l *lease) int64 {
	r.t.Helper()
	token, ttl, err := r.ask(l)
	if err != nil || token <= 0 {
		r.t.Fatalf("acquire of %s = %d, %v, %v", l.keys.name, token, ttl, err)
	}
	return token
}

func (r *rig) ask(l *lease) (token int64, ttl time.Duration, err error) {
	return r.acquire(ctx0, l, millis(l.length), false, &r.cfg)
}

// end releases with the protocol what must be held.
func (r *rig) end(l *lease) {
	r.t.Helper()
	if told, err := r.release(ctx0, l); told < 0 || err != nil {
		r.t.Fatalf("release of %s = %d, %v", l.keys.name, told, err)
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
	code, ok := redisError(err)
	if !ok || transient(err) || code != "WRONGTYPE" && (!r.mini || !strings.Contains(err.Error(), "WRONGTYPE")) {
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
	conn, put := r.client.Dedicate()
	r.t.Cleanup(put)
	messages := make(chan string, 100)
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
