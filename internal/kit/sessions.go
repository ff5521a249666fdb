package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const (
	Soon    = 20 * time.Second // bounds the wait for what comes quickly on an idle machine
	Quickly = 15 * time.Second // longer than anything takes but a lease of 30 s that runs out
)

var Background = context.Background()

// Addressed is what a client can be connected to: a server, a proxy, a miniredis.
type Addressed interface{ Addr() string }

// NewClient connects a client to one server. It is closed when the test ends.
func NewClient(t testing.TB, at Addressed, mod ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	if s, ok := at.(*redistest.Server); ok {
		return s.Client(t, mod...) // knows the password
	}
	client, err := Connect(at.Addr(), mod...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func Connect(addr string, mod ...func(*rueidis.ClientOption)) (rueidis.Client, error) {
	o := rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true}
	for _, f := range mod {
		f(&o)
	}
	return rueidis.NewClient(o)
}

// NewSession starts a session with a client of its own. Both are closed when the
// test ends.
func NewSession(t testing.TB, at Addressed, opts ...relock.SessionOption) *relock.Session {
	t.Helper()
	return SessionOn(t, NewClient(t, at), opts...)
}

// SessionOn starts a session on a client. It is closed when the test ends.
func SessionOn(t testing.TB, client rueidis.Client, opts ...relock.SessionOption) *relock.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(Background, Soon)
	defer cancel()
	s, err := relock.NewSession(ctx, client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(Background, Soon)
		defer cancel()
		_ = s.Close(ctx) // fails where the test has broken Redis
		select {
		case <-ctx.Done():
			t.Errorf("the session did not close within %v", Soon)
		default:
		}
	})
	return s
}

// ChildSession starts the session of a helper process, which ends if it cannot.
func ChildSession(addr string, opts ...relock.SessionOption) (*relock.Session, rueidis.Client) {
	ctx, cancel := context.WithTimeout(Background, Soon)
	defer cancel()
	for { // a test may break connections just then
		client, err := Connect(addr)
		if err == nil {
			var s *relock.Session
			if s, err = relock.NewSession(ctx, client, opts...); err == nil {
				return s, client
			}
			client.Close()
		}
		if ctx.Err() != nil {
			ChildCheck(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// AtOnce has so many helper processes do the same at the same time, and waits until they
// have: each says "ready", is told to go, and says "done".
func AtOnce(t testing.TB, processes int, role string, args ...string) {
	t.Helper()
	var children []*redistest.Proc
	for range processes {
		c := redistest.Child(t, role, args...)
		_, err := c.Expect("ready", Soon)
		require.NoError(t, err)
		children = append(children, c)
	}
	for _, c := range children {
		require.NoError(t, c.Send("go"))
	}
	for _, c := range children {
		_, err := c.Expect("done", 2*Soon)
		require.NoError(t, err)
	}
}

// ChildCheck ends a helper process if there is an error.
func ChildCheck(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// Stress returns how long a stress test may go on: RELOCK_STRESS, by default short.
func Stress(t testing.TB, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("RELOCK_STRESS")
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// OnBoth runs a test on a real server and on miniredis. Use it for what does not
// depend on time passing in Redis: keys of miniredis do not expire.
func OnBoth(t *testing.T, f func(t *testing.T, at Addressed)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		f(t, redistest.Start(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		m, _ := redistest.Mini(t)
		f(t, m)
	})
}

// Bump adds one to a counter in Redis by reading and then writing it. The count is
// exact only if nobody does the same at the same time.
func Bump(ctx context.Context, client rueidis.Client, key string) error {
	n, err := client.Do(ctx, client.B().Get().Key(key).Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return client.Do(ctx, client.B().Set().Key(key).Value(fmt.Sprint(n+1)).Build()).Error()
}

// Counted returns the value of a counter.
func Counted(t testing.TB, client rueidis.Client, key string) int {
	t.Helper()
	n, err := client.Do(Background, client.B().Get().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	return int(n)
}

// Cancelled returns a context that has ended.
func Cancelled() context.Context {
	ctx, cancel := context.WithCancel(Background)
	cancel()
	return ctx
}

// Awaited waits until somebody queues for a lock.
func Awaited(t testing.TB, client rueidis.Client, name string) {
	t.Helper()
	redistest.Eventually(t, Soon, "somebody to wait for "+name, func() bool { return Exists(t, client, "relock_queue:{"+name+"}") })
}

// ContextFor returns a context that ends after d with the cause errStop.
func ContextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(Background, d, ErrStop)
}

// Roles are the parts that a test may run in a process of its own, by name; see
// redistest.Child. The init functions of the test files add to it.
var Roles = map[string]func(args []string){}

// MainOfAll is the TestMain of a test package that only "make test-all" runs, which sets
// RELOCK_ALL. Without that nothing of it runs but tests that -run names.
func MainOfAll(m *testing.M) {
	redistest.RunChild(Roles)
	flag.Parse()
	if os.Getenv("RELOCK_ALL") == "" && flag.Lookup("test.run").Value.String() == "" {
		fmt.Println("only make test-all runs these tests, and -run those that it names")
		return
	}
	Main(m)
}

// Main is the TestMain of a test package. It fails if a goroutine is left.
func Main(m *testing.M) {
	redistest.RunChild(Roles)
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

var ErrStop = errors.New("the caller has lost interest")

// WarmUp has the server know the scripts.
func WarmUp(t testing.TB, s *relock.Session) {
	t.Helper()
	m := s.Mutex("warm-up")
	Lock(t, Background, m)
	Unlock(t, Background, m)
	HoldersOf(t, s, "warm-up")
}
