// Package peek lets the tests of this module look into the values of the root package, whose fields it
// reads by reflection. Nothing but tests imports it.
package peek

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/quorum"
	"github.com/relock-go/relock/internal/wire"
)

// Engine returns the engine of a session.
func Engine(s *relock.Session) *engine.Engine { return field[*engine.Engine](s, "e") }

// Redlock returns what a Redlock is built on.
func Redlock(l *relock.Redlock) *quorum.Redlock {
	return field[engine.Member](l, "l").(*quorum.Redlock)
}

// Locked returns what was locked last through l, nil if there is nothing.
func Locked(l relock.Locker) *relock.Hold {
	mu := at[sync.Mutex](l, "mu")
	mu.Lock()
	defer mu.Unlock()
	held := field[engine.Held](l, "last")
	for _, due := range slices.Backward(field[[]engine.Held](l, "due")) {
		if due.Due() {
			held = due
			break
		}
	}
	if held == nil {
		return nil
	}
	h := new(relock.Hold)
	*at[engine.Member](h, "l") = field[engine.Member](l, "l")
	*at[engine.Held](h, "held") = held
	*at[bool](h, "member") = true
	return h
}

// Scripts returns the scripts that sessions send.
var Scripts = sync.OnceValue(func() *wire.Scripts {
	_, here, _, _ := runtime.Caller(0)
	scripts, err := wire.LoadScripts(os.DirFS(filepath.Join(filepath.Dir(here), "../../lua")))
	if err != nil {
		panic(err)
	}
	return scripts
})

// field returns the field of what a pointer leads to.
func field[T any](of any, name string) T { return *at[T](of, name) }

// at returns where that field is.
func at[T any](of any, name string) *T {
	f := reflect.ValueOf(of).Elem().FieldByName(name)
	if f.Type() != reflect.TypeFor[T]() {
		panic(name + " of " + reflect.TypeOf(of).String() + " is a " + f.Type().String())
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}
