package locks_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

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
			case relock.Locker: // RLocker
				for inner, err := range callAll(t, got) {
					failures["RLocker."+inner] = err
				}
			case time.Time:
				require.True(t, got.IsZero(), name)
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

var (
	whole = []string{"Lock", "TryLock", "Unlock", "Err"}
	sides = append([]string{"RLock", "TryRLock", "RUnlock", "RLocker.Lock", "RLocker.TryLock", "RLocker.Unlock", "RLocker.Err"}, whole...)
)

// A name or option that is refused is refused by every call of every type, and nothing
// is sent for it.
func TestWhatIsRefusedIsRefusedByEveryTypeOfLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	kit.WarmUp(t, s)
	// A Group may begin with its other member, and end that in the background: elsewhere.
	g := kit.NewSession(t, redistest.Start(t))
	type refused struct {
		name string
		opts []relock.LockOption
		want error
	}
	all := map[string]refused{
		"no name":        {"", nil, relock.ErrName},
		"a stray brace":  {"a}b", nil, relock.ErrName},
		"a long name":    {strings.Repeat("x", 1025), nil, relock.ErrName},
		"a short lease":  {"a", []relock.LockOption{relock.WithFixedLease(time.Millisecond)}, relock.ErrOption},
		"no lease":       {"a", []relock.LockOption{relock.WithFixedLease(0)}, relock.ErrOption},
		"minus a lease":  {"a", []relock.LockOption{relock.WithFixedLease(-time.Second)}, relock.ErrOption},
		"just too short": {"a", []relock.LockOption{nil, relock.WithFixedLease(10*time.Millisecond - 1), relock.WithFixedLease(time.Second)}, relock.ErrOption},
		"no hold":        {"a", []relock.LockOption{relock.WithMaxHold(0)}, relock.ErrOption},
		"a negative max": {"a", []relock.LockOption{relock.WithMaxHold(-1)}, relock.ErrOption},
		"both":           {"{", []relock.LockOption{relock.WithFixedLease(0)}, relock.ErrName},
	}
	for _, name := range []string{"{", "}", "{}", "a{", "a}", "a{b", "}a{", "{}a", "{}{a}"} {
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
			relock.NewGroup(g.Mutex("fine"), g.Mutex(bad.name, bad.opts...)),
			relock.NewGroup(g.FairMutex("fine"), g.RWMutex(bad.name, bad.opts...).RLocker()),
			relock.NewRedlock([]*relock.Session{s}, bad.name, bad.opts...),
		} {
			cost := trafficOf(server, func() {
				for method, err := range callAll(t, l) {
					switch {
					case strings.HasSuffix(method, "Err"):
						require.ErrorIs(t, err, relock.ErrNotHeld, "%s: %T.%s", what, l, method)
					case strings.HasSuffix(method, "Unlock") && errors.Is(err, relock.ErrNotHeld):
						// of a group, true as well
					default:
						require.ErrorIs(t, err, bad.want, "%s: %T.%s", what, l, method)
					}
				}
			})
			require.Zero(t, cost, "%s: %T sent something", what, l)
		}
	}
}

// Before the first Lock, nothing is held: that is no misuse but an answer.
func TestALockThatWasNeverTakenIsNotHeld(t *testing.T) {
	t.Parallel()
	m, _ := redistest.Mini(t)
	s := kit.NewSession(t, m)
	for _, l := range []relock.Locker{
		s.Mutex("a"), s.FairMutex("a"), s.RWMutex("a"), s.RWMutex("a").RLocker(),
		relock.NewGroup(s.Mutex("a"), s.FairMutex("b")), relock.NewRedlock([]*relock.Session{s}, "a"),
	} {
		for _, ctx := range []context.Context{kit.Background, s.NewContext(kit.Background), kit.Cancelled()} {
			err := l.Unlock(ctx)
			require.ErrorIs(t, err, relock.ErrNotHeld, "%T", l)
			require.False(t, errors.Is(err, context.Canceled), "%T: Unlock ignores the end of its context", l)
		}
		require.ErrorIs(t, l.Err(), relock.ErrNotHeld, "%T", l)
		require.True(t, kit.IsClosed(l.Done()), "%T", l)
		require.PanicsWithValue(t, l.Unlock(kit.Background).Error(), func() { relock.SyncLocker(l).Unlock() }, "%T", l)
	}
}
