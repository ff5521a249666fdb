package relock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	soon    = 20 * time.Second // bounds the wait for what comes quickly on an idle machine
	quickly = 5 * time.Second  // longer than anything takes but a lease of 30 s that runs out
)

var background = context.Background()

// addressed is what a client can be connected to: a server, a proxy, a miniredis.
type addressed interface{ Addr() string }

// newClient connects a client to one server. It is closed when the test ends.
func newClient(t testing.TB, at addressed, mod ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	if s, ok := at.(*redistest.Server); ok {
		return s.Client(t, mod...) // knows the password
	}
	client, err := connect(at.Addr(), mod...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func connect(addr string, mod ...func(*rueidis.ClientOption)) (rueidis.Client, error) {
	o := rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true}
	for _, f := range mod {
		f(&o)
	}
	return rueidis.NewClient(o)
}

// newSession starts a session with a client of its own. Both are closed when the
// test ends.
func newSession(t testing.TB, at addressed, opts ...relock.SessionOption) *relock.Session {
	t.Helper()
	return sessionOn(t, newClient(t, at), opts...)
}

// sessionOn starts a session on a client. It is closed when the test ends.
func sessionOn(t testing.TB, client rueidis.Client, opts ...relock.SessionOption) *relock.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, soon)
	defer cancel()
	s, err := relock.NewSession(ctx, client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(background, soon)
		defer cancel()
		_ = s.Close(ctx) // fails where the test has broken Redis
		select {
		case <-ctx.Done():
			t.Errorf("the session did not close within %v", soon)
		default:
		}
	})
	return s
}

// childSession starts the session of a helper process, which ends if it cannot.
func childSession(addr string, opts ...relock.SessionOption) (*relock.Session, rueidis.Client) {
	ctx, cancel := context.WithTimeout(background, soon)
	defer cancel()
	for { // a test may break connections just then
		client, err := connect(addr)
		if err == nil {
			var s *relock.Session
			if s, err = relock.NewSession(ctx, client, opts...); err == nil {
				return s, client
			}
			client.Close()
		}
		if ctx.Err() != nil {
			childCheck(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// atOnce has so many helper processes do the same at the same time, and waits until they
// have: each says "ready", is told to go, and says "done".
func atOnce(t testing.TB, processes int, role string, args ...string) {
	t.Helper()
	var children []*redistest.Proc
	for range processes {
		c := redistest.Child(t, role, args...)
		_, err := c.Expect("ready", soon)
		require.NoError(t, err)
		children = append(children, c)
	}
	for _, c := range children {
		require.NoError(t, c.Send("go"))
	}
	for _, c := range children {
		_, err := c.Expect("done", 2*soon)
		require.NoError(t, err)
	}
}

// childCheck ends a helper process if there is an error.
func childCheck(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// stress returns how long a stress test may go on: RELOCK_STRESS, by default short.
func stress(t testing.TB, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("RELOCK_STRESS")
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// onBoth runs a test on a real server and on miniredis. Use it for what does not
// depend on time passing in Redis: keys of miniredis do not expire.
func onBoth(t *testing.T, f func(t *testing.T, at addressed)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		f(t, redistest.Start(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		f(t, miniFor(t))
	})
}

// miniFor starts a miniredis.
func miniFor(t testing.TB) addressed {
	t.Helper()
	m, _ := redistest.Mini(t)
	return m
}

// bump adds one to a counter in Redis by reading and then writing it. The count is
// exact only if nobody does the same at the same time.
func bump(ctx context.Context, client rueidis.Client, key string) error {
	n, err := client.Do(ctx, client.B().Get().Key(key).Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return client.Do(ctx, client.B().Set().Key(key).Value(fmt.Sprint(n+1)).Build()).Error()
}

// counted returns the value of a counter.
func counted(t testing.TB, client rueidis.Client, key string) int {
	t.Helper()
	n, err := client.Do(background, client.B().Get().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	return int(n)
}

// together runs f in n goroutines at the same time and joins their errors.
func together(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

// async runs f in a goroutine and delivers its result; see receive.
func async[T any](f func() T) <-chan T {
	c := make(chan T, 1)
	go func() { c <- f() }()
	return c
}

// receive returns what arrives on c, and stops the test when nothing does.
func receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(soon):
		t.Fatalf("not within %v: %s", soon, what)
		panic("unreachable")
	}
}

// lock takes a lock, and fails the test if that does not succeed soon.
func lock(t testing.TB, ctx context.Context, l relock.Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	require.NoError(t, l.Lock(ctx))
}

// unlock ends a hold that must be there.
func unlock(t testing.TB, ctx context.Context, l relock.Locker) {
	t.Helper()
	require.NoError(t, l.Unlock(ctx))
}

// tryLock makes one attempt that must not fail, and reports whether it got the lock.
func tryLock(t testing.TB, ctx context.Context, l relock.Locker) bool {
	t.Helper()
	ok, err := l.TryLock(ctx)
	require.NoError(t, err)
	return ok
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// keys returns the keys in Redis except those of fencing tokens, which stay by design.
func keys(t testing.TB, client rueidis.Client) []string {
	t.Helper()
	all, err := client.Do(background, client.B().Keys().Pattern("*").Build()).AsStrSlice()
	require.NoError(t, err)
	var left []string
	for _, k := range all {
		if !strings.HasPrefix(k, "relock_fence:") {
			left = append(left, k)
		}
	}
	return left
}

// exists reports whether a key is there.
func exists(t testing.TB, client rueidis.Client, key string) bool {
	t.Helper()
	n, err := client.Do(background, client.B().Exists().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	return n == 1
}

// goneQuickly waits until a key is gone, for much less than a lease of 30 s.
func goneQuickly(t testing.TB, client rueidis.Client, key string) {
	t.Helper()
	redistest.Eventually(t, quickly, key+" to be released", func() bool { return !exists(t, client, key) })
}

// queued waits until n calls of Lock are queued in a session behind a holder or
// behind the one that asks Redis.
func queued(t testing.TB, s *relock.Session, name string, n int) {
	t.Helper()
	redistest.Eventually(t, soon, fmt.Sprintf("%d calls to be queued for %s", n, name), func() bool {
		return peek.Queued(s, name) == n
	})
}

// hashOf returns the fields of a hash.
func hashOf(t testing.TB, client rueidis.Client, key string) map[string]string {
	t.Helper()
	fields, err := client.Do(background, client.B().Hgetall().Key(key).Build()).AsStrMap()
	require.NoError(t, err)
	return fields
}

// holdersOf returns who holds a lock by what Redis knows.
func holdersOf(t testing.TB, s *relock.Session, name string) []relock.Holder {
	t.Helper()
	state, err := s.Inspect(background, name)
	require.NoError(t, err)
	return state.Holders
}

// cancelled returns a context that has ended.
func cancelled() context.Context {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return ctx
}

// awaited waits until a session listens for the release of a lock, as one does whose
// goroutine waits for Redis.
func awaited(t testing.TB, client rueidis.Client, name string) {
	t.Helper()
	channel := "redisson_lock__channel:{" + name + "}"
	redistest.Eventually(t, soon, "somebody to wait for "+name, func() bool {
		reply, err := client.Do(background, client.B().PubsubNumsub().Channel(channel).Build()).AsIntMap()
		require.NoError(t, err)
		return reply[channel] > 0
	})
}

// contextFor returns a context that ends after d with the cause errStop.
func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(background, d, errStop)
}
