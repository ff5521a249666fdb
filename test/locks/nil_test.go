package locks_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// panicOf returns what f panics with, as text; empty if it does not.
func panicOf(f func()) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprint(p)
		}
	}()
	f()
	return ""
}

// noContext is a nil context; it is a variable, so that no linter sees what is tested.
var noContext context.Context

// methodsOf calls f with every exported method of v.
func methodsOf(v any, f func(name string, method reflect.Value)) {
	of := reflect.ValueOf(v)
	for i := range of.NumMethod() {
		f(fmt.Sprintf("(%T).%s", v, of.Type().Method(i).Name), of.Method(i))
	}
}

// A nil context is a mistake of the program, and panics as in package context, in every method that
// takes one; whatever else is wrong.
func TestANilContextPanicsAndSaysSo(t *testing.T) {
	t.Parallel()
	m, client := redistest.Mini(t)
	s := kit.NewSession(t, m)
	nothing := func(context.Context) error { return nil }
	calls := map[string]func(){
		"NewSession":  func() { _, _ = relock.NewSession(noContext, client) },
		"FromContext": func() { relock.FromContext(noContext) },
		"Do":          func() { _ = relock.Do(noContext, s.Mutex("a"), nothing) },
		"TryDo":       func() { _, _ = relock.TryDo(noContext, s.Mutex("a"), nothing) },
		"Token":       func() { relock.Token(noContext) },
		"Deadline":    func() { relock.Deadline(noContext) },
	}
	called := 0
	for _, v := range []any{
		s, s.Mutex("a"), s.FairMutex("b"), s.RWMutex("c"), s.RWMutex("d").RLocker(), relock.NewGroup(s.Mutex("e")),
		relock.NewRedlock([]*relock.Session{s}, "f"),
		new(relock.Session), new(relock.Mutex), new(relock.FairMutex), new(relock.RWMutex), new(relock.RWMutex).RLocker(),
		new(relock.Group), new(relock.Redlock),
		(*relock.Session)(nil), (*relock.Mutex)(nil), (*relock.FairMutex)(nil), (*relock.RWMutex)(nil), (*relock.Group)(nil), (*relock.Redlock)(nil),
	} {
		methodsOf(v, func(name string, method reflect.Value) {
			if typ := method.Type(); typ.NumIn() > 0 && typ.In(0) == reflect.TypeFor[context.Context]() {
				args := make([]reflect.Value, typ.NumIn())
				for i := range args {
					args[i] = reflect.Zero(typ.In(i))
				}
				calls[fmt.Sprint(name, called)] = func() { method.Call(args) }
				called++
			}
		})
	}
	require.Greater(t, called, 60)
	for name, call := range calls {
		require.Contains(t, panicOf(call), "relock: the context is nil", name)
	}
	kit.Lock(t, kit.Background, s.Mutex("a")) // nothing is held
}

// A nil lock and a zero one return errors that say so from every method.
func TestANilLockReturnsErrors(t *testing.T) {
	for _, l := range []relock.Locker{
		(*relock.Mutex)(nil), (*relock.FairMutex)(nil), (*relock.RWMutex)(nil), (*relock.RWMutex)(nil).RLocker(), (*relock.Group)(nil),
		(*relock.Redlock)(nil), new(relock.Mutex), new(relock.FairMutex), new(relock.RWMutex), new(relock.RWMutex).RLocker(),
		new(relock.Group), new(relock.Redlock),
	} {
		name := fmt.Sprintf("%T", l)
		want := whole
		if _, ok := l.(*relock.RWMutex); ok {
			want = sides
		}
		failures := callAll(t, l)
		for _, method := range want {
			require.ErrorContains(t, failures[method], "the lock is nil or a zero value", "%s.%s", name, method)
		}
		require.ErrorIs(t, failures["Err"], relock.ErrNotHeld, name)
		require.Error(t, relock.Do(kit.Background, l, func(context.Context) error { t.Error("called"); return nil }), name)
		require.Panics(t, func() { relock.SyncLocker(l).Lock() }, name)
		require.Panics(t, func() { relock.SyncLocker(l).Unlock() }, name)
	}
}

func nilSessions() []*relock.Session { return []*relock.Session{nil, new(relock.Session)} }

// A nil Session and a zero one say so, and so do the locks that they make.
func TestANilSessionReturnsErrors(t *testing.T) {
	const want = "the Session is nil or a zero value"
	for _, s := range nilSessions() {
		require.Empty(t, s.ID())
		require.True(t, kit.IsClosed(s.Done()))
		_, err := s.Inspect(kit.Background, "a")
		require.ErrorContains(t, err, `relock: inspect "a": `+want)
		_, err = s.ForceUnlock(kit.Background, "a")
		require.ErrorContains(t, err, `relock: force-unlock "a": `+want)
		require.ErrorContains(t, s.Close(kit.Background), "relock: close: "+want)
		require.Contains(t, panicOf(func() { s.NewContext(kit.Background) }), "relock: NewContext: "+want)
		for _, l := range []relock.Locker{
			s.Mutex("a"), s.FairMutex("a"), s.RWMutex("a"), s.RWMutex("a").RLocker(),
			relock.NewRedlock([]*relock.Session{s}, "a"), relock.NewGroup(s.Mutex("a")), relock.NewGroup(s.Mutex("a"), s.FairMutex("b")),
		} {
			for method, err := range callAll(t, l) {
				require.True(t, strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Session of the Redlock is nil") ||
					strings.HasSuffix(err.Error(), relock.ErrNotHeld.Error()[len("relock: "):]), "%T.%s: %v", l, method, err)
			}
			require.ErrorContains(t, l.Lock(kit.Background), "Session", "%T", l)
		}
	}
}

// Functions say which of their arguments is nil, before anything is locked.
func TestNilArgumentsAreNamed(t *testing.T) {
	t.Parallel()
	m, _ := redistest.Mini(t)
	s := kit.NewSession(t, m)
	nothing := func(context.Context) error { return nil }
	nilLockers := []relock.Locker{
		nil, (*relock.Mutex)(nil), (*relock.FairMutex)(nil), (*relock.RWMutex)(nil), (*relock.RWMutex)(nil).RLocker(), (*relock.Group)(nil),
		(*relock.Redlock)(nil), (*foreign)(nil),
	}
	for _, l := range nilLockers {
		name := fmt.Sprintf("%T", l)
		require.ErrorContains(t, relock.Do(kit.Background, l, nothing), "relock: Do: the Locker is nil", name)
		_, err := relock.TryDo(kit.Background, l, nothing)
		require.ErrorContains(t, err, "relock: TryDo: the Locker is nil", name)
		require.Contains(t, panicOf(func() { relock.SyncLocker(l) }), "relock: SyncLocker: the Locker is nil", name)
		for _, g := range []*relock.Group{relock.NewGroup(l), relock.NewGroup(s.Mutex("a"), l)} {
			err := g.Lock(kit.Background)
			require.ErrorContains(t, err, "a member of the group is nil", name)
			require.ErrorIs(t, err, relock.ErrOption, name)
		}
	}
	require.ErrorContains(t, relock.Do(kit.Background, s.Mutex("a"), nil), "relock: Do: the function is nil")
	require.ErrorIs(t, s.Mutex("a").Err(), relock.ErrNotHeld)
	for _, client := range []rueidis.Client{nil, (*nilClient)(nil)} {
		_, err := relock.NewSession(kit.Background, client)
		require.ErrorContains(t, err, "relock: NewSession: the client is nil")
	}
	for _, sessions := range [][]*relock.Session{nil, {}, {s, nil}, {s, new(relock.Session)}} {
		err := relock.NewRedlock(sessions, "a").Lock(kit.Background)
		require.ErrorIs(t, err, relock.ErrOption)
		require.ErrorContains(t, err, "ession")
	}
	// Options may be nil.
	other := kit.SessionOn(t, kit.NewClient(t, m), nil, relock.WithObserver(nil))
	kit.Lock(t, kit.Background, other.Mutex("a", nil))
	var none *lossTally
	for _, o := range []relock.Observer{
		none, relock.Observers(), relock.Observers(nil, none), relock.Observers(nil, new(lossTally)), relock.SlogObserver(nil),
	} {
		observed := kit.SessionOn(t, kit.NewClient(t, m), relock.WithObserver(o)).Mutex("b")
		kit.Lock(t, kit.Background, observed)
		kit.Unlock(t, kit.Background, observed)
	}
}

type nilClient struct{ rueidis.Client }

// foreign is a Locker of another package.
type foreign struct{ relock.Locker }

// What the tests above have to call: a new exported function belongs there, or here.
func TestEveryExportedFunctionIsTriedWithNil(t *testing.T) {
	const root = "../.."
	tried := []string{
		"NewSession", "FromContext", "Do", "TryDo", "Token", "Deadline", "SyncLocker", "NewGroup", "NewRedlock",
		"WithLease", "WithFixedLease", "WithMaxHold", "WithPrefix", "WithTenure", "WithReplicas", "WithObserver", // options; nil ones are tried
		"WithLabel", "Observers", "SlogObserver",
	}
	types := []string{"Session", "Mutex", "FairMutex", "RWMutex", "Group", "Redlock"}
	plain := []string{"NopObserver", "Mode", "Kind"} // have methods that take no pointer and no context
	files, err := filepath.Glob(filepath.Join(root, "*.go"))
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			if f.Recv == nil {
				require.Contains(t, tried, f.Name.Name, "a function that is not tried with nil")
				continue
			}
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if name := of.(*ast.Ident).Name; ast.IsExported(name) {
				require.Contains(t, slices.Concat(types, plain), name, "a type that is not tried with nil")
			}
		}
	}
}

// go vet finds every copy of what must not be copied.
func TestVetFindsCopies(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command")
	}
	out, err := exec.Command(tool, "vet", "./testdata/copies").CombinedOutput()
	require.Error(t, err, "vet finds nothing")
	for _, name := range []string{"session", "mutex", "fairMutex", "rwMutex", "group", "redlock", "embedded"} {
		require.Regexp(t, `copies\.go:\d+:\d+: `+name+` passes lock by value: .* contains github\.com/relock-go/relock\.noCopy`, string(out))
		require.Regexp(t, `call of `+name+` copies lock value`, string(out))
	}
}
