package locks_test

import (
	"context"
	"errors"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// callAll calls every method of l, whatever type it is, and checks what each returns:
// an error where there can be one, a closed channel, nothing else. It returns the
// errors by method.
func callAll(t testing.TB, l any) map[string]error {
	t.Helper()
	failures := map[string]error{}
	v := reflect.ValueOf(l)
	for i := range v.NumMethod() {
		name, method := v.Type().Method(i).Name, v.Method(i)
		var args []reflect.Value
		for j := range method.Type().NumIn() {
			require.Equal(t, reflect.TypeFor[context.Context](), method.Type().In(j), name)
			args = append(args, reflect.ValueOf(kit.Background))
		}
		for _, result := range method.Call(args) {
			switch got := result.Interface().(type) {
			case error:
				failures[name] = got
				require.True(t, strings.HasPrefix(got.Error(), "relock: "), "%s: %v", name, got)
			case <-chan struct{}:
				require.True(t, kit.IsClosed(got), name)
			case *relock.Hold:
				require.Nil(t, got, name)
			case relock.Locker: // RLocker
				for inner, err := range callAll(t, got) {
					failures["RLocker."+inner] = err
				}
			case bool:
				require.False(t, got, name)
			case int64:
				require.Zero(t, got, name)
			case string, nil: // Name, or no error
			default:
				t.Fatalf("%s returns a %T", name, got)
			}
		}
	}
	return failures
}

// A name or option that is refused is refused by every call of every type, and nothing
// is sent for it.
func TestWhatIsRefusedIsRefusedByEveryCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	kit.WarmUp(t, s)
	// A Group may begin with its other member, and end that in the background: elsewhere. One attempt begins with the other one.
	g := kit.NewSession(t, redistest.Start(t))
	type refused struct {
		name string
		opts []relock.LockOption
		want error
	}
	fixed := relock.WithFixedLease
	all := map[string]refused{
		"no name":        {"", nil, relock.ErrName},
		"a long name":    {strings.Repeat("x", 1025), nil, relock.ErrName},
		"a short lease":  {"a", []relock.LockOption{fixed(time.Millisecond)}, relock.ErrOption},
		"no lease":       {"a", []relock.LockOption{fixed(0)}, relock.ErrOption},
		"minus a lease":  {"a", []relock.LockOption{fixed(-time.Second)}, relock.ErrOption},
		"just too short": {"a", []relock.LockOption{nil, fixed(10*time.Millisecond - 1), fixed(time.Second)}, relock.ErrOption},
		"no hold":        {"a", []relock.LockOption{relock.WithMaxHold(0)}, relock.ErrOption},
		"a negative max": {"a", []relock.LockOption{relock.WithMaxHold(-1)}, relock.ErrOption},
		"both":           {"{", []relock.LockOption{fixed(0)}, relock.ErrName},
	}
	for _, name := range []string{"{", "}", "{}", "a{", "a}", "a{b", "a}b", "}a{", "{}a", "{}{a}"} {
		all[name] = refused{name, nil, relock.ErrName}
	}
	for what, bad := range all {
		if bad.want == relock.ErrName {
			_, err := s.Inspect(kit.Background, bad.name)
			require.ErrorIs(t, err, relock.ErrName)
			_, err = s.ForceUnlock(kit.Background, bad.name)
			require.ErrorIs(t, err, relock.ErrName)
		}
		for _, l := range []any{
			s.Mutex(bad.name, bad.opts...),
			s.FairMutex(bad.name, bad.opts...),
			s.RWMutex(bad.name, bad.opts...),
			relock.NewGroup(g.Mutex("~fine"), g.Mutex(bad.name, bad.opts...)),
			relock.NewGroup(g.FairMutex("~fine"), g.RWMutex(bad.name, bad.opts...).RLocker()),
			relock.NewRedlock([]*relock.Session{s}, bad.name, bad.opts...),
		} {
			cost := trafficOf(server, func() {
				for method, err := range callAll(t, l) {
					switch {
					case strings.HasSuffix(method, "Err"):
						require.ErrorIs(t, err, relock.ErrNotHeld, "%s: %T.%s", what, l, method)
					case strings.HasSuffix(method, "Unlock") && errors.Is(err, relock.ErrNotHeld):
						// true as well
					default:
						require.ErrorIs(t, err, bad.want, "%s: %T.%s", what, l, method)
					}
				}
			})
			require.Zero(t, cost, "%s: %T sent something", what, l)
		}
	}
}

func TestUnusualNamesWork(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other, client := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewClient(t, at)
		for _, name := range []string{
			"x", " ", "a b", "line\nbreak", "nul\x00byte", "\xff\xfe", "größe", `"quoted"`, "*", "[a-z]?",
			"{tag}", "a{tag}b", "a{tag}{", "{tag}}", "{{tag}}", "a:b:1", strings.Repeat("x", 1024), "lost lock 0",
		} {
			m := s.Mutex(name)
			kit.Lock(t, kit.Background, m)
			require.True(t, kit.Exists(t, client, name), "%q is the key", name)
			waiter := other.Mutex(name)
			require.False(t, kit.TryLock(t, kit.Background, waiter))
			require.Len(t, kit.HoldersOf(t, other, name), 1)
			force(t, m, name, other)
			require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
			kit.Lock(t, kit.Background, waiter)
			kit.Unlock(t, kit.Background, waiter)
		}
		require.Empty(t, kit.Keys(t, client))
	})
}

func TestNewSessionSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, client := range []rueidis.Client{nil, (*nilClient)(nil)} {
		_, err := relock.NewSession(kit.Background, client)
		require.ErrorContains(t, err, "relock: NewSession: the client is nil")
	}
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	client := kit.NewClient(t, proxy)
	for what, o := range map[string]relock.SessionOption{
		"no lease":               relock.WithLease(0),
		"negative lease":         relock.WithLease(-time.Second),
		"too short a lease":      relock.WithLease(10*time.Millisecond - 1),
		"negative tenure":        relock.WithTenure(-1),
		"no replicas":            relock.WithReplicas(0, time.Second),
		"no time for replicas":   relock.WithReplicas(1, 0),
		"WAIT would not time it": relock.WithReplicas(1, time.Millisecond-1),
	} {
		s, err := relock.NewSession(kit.Background, client, relock.WithTenure(0), o, relock.WithTenure(0))
		require.ErrorIs(t, err, relock.ErrOption, what)
		require.Nil(t, s, what)
	}
	s := kit.SessionOn(t, client, nil, relock.WithTenure(0), relock.WithObserver(nil)) // options may be nil
	_, err := s.Mutex("lock", nil, relock.WithFixedLease(10*time.Millisecond), nil).TryLock(kit.Background)
	require.NotErrorIs(t, err, relock.ErrOption) // it may be too short for the machine

	ctx, cancel := context.WithCancelCause(kit.Background)
	cancel(kit.ErrStop)
	_, err = relock.NewSession(ctx, client)
	wantStopped(t, err, context.Canceled)
	proxy.Stall(true)
	ctx, end := kit.ContextFor(50 * time.Millisecond)
	defer end()
	err = kit.Receive(t, kit.Async(func() error { _, err := relock.NewSession(ctx, client); return err }), "NewSession to end")
	wantStopped(t, err, context.DeadlineExceeded)
	proxy.Stall(false)
	kit.Lock(t, kit.Background, kit.SessionOn(t, client).Mutex("lock"))

	closed := kit.NewClient(t, proxy)
	closed.Close()
	_, err = relock.NewSession(kit.Background, closed)
	require.ErrorContains(t, err, "relock: ")
}

type nilClient struct{ rueidis.Client }

// go vet finds every copy of what must not be copied.
func TestVetFindsCopies(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("go")
	require.NoError(t, err)
	out, err := exec.Command(tool, "vet", "./testdata/copies").CombinedOutput()
	require.Error(t, err, "vet finds nothing")
	for _, name := range []string{"session", "mutex", "fairMutex", "rwMutex", "group", "redlock", "embedded"} {
		require.Regexp(t, `copies\.go:\d+:\d+: `+name+` passes lock by value: .* contains github\.com/relock-go/relock\.(noCopy|.*handle contains sync\.Mutex)`, string(out))
		require.Regexp(t, `call of `+name+` copies lock value`, string(out))
	}
}
