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
	"time"
	"unsafe"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/quorum"
	"github.com/relock-go/relock/internal/session"
	"github.com/relock-go/relock/internal/wire"
)

// Session returns the inside of a session.
func Session(s *relock.Session) *session.Session { return field[*session.Session](s, "e") }

// Queued returns how many calls on a Mutex or RWMutex wait for a goroutine of this process. Those
// that ask Redis are not counted.
func Queued(s *relock.Session, name string) int {
	n := Session(s).Node
	return n.Table(wire.Plain).Waiting(n.KeyOf(name)) + n.Table(wire.Read).Waiting(n.KeyOf(name))
}

// KnowsRW reports whether the session has an entry for any RWMutex.
func KnowsRW(s *relock.Session) bool { return Session(s).Table(wire.Read).Len() > 0 }

// Waits reports whether a call waits in Redis for a lock.
func Waits(s *relock.Session, name string) bool {
	in := Session(s)
	return in.Queue.Len(in.KeyOf(name)) > 0
}

// Watchers returns how many callbacks wait for the end of the hold of a Mutex.
func Watchers(s *relock.Session, name string) int {
	n := Session(s).Node
	return n.Table(wire.Plain).Held(n.KeyOf(name)).Watchers()
}

// Redlock returns what a Redlock is built on.
func Redlock(l *relock.Redlock) *quorum.Redlock {
	return field[acquire.Member](l, "l").(*quorum.Redlock)
}

// Locked returns what was locked last through l, nil if there is nothing.
func Locked(l relock.Locker) *relock.Hold {
	mu := at[sync.Mutex](l, "mu")
	mu.Lock()
	defer mu.Unlock()
	held := field[acquire.Held](l, "last")
	for _, due := range slices.Backward(field[[]acquire.Held](l, "due")) {
		if due.Due() {
			held = due
			break
		}
	}
	if held == nil {
		return nil
	}
	h := new(relock.Hold)
	*at[acquire.Member](h, "l") = field[acquire.Member](l, "l")
	*at[acquire.Held](h, "held") = held
	*at[bool](h, "member") = true
	return h
}

// Deadline returns until when a hold of a session was valid, also after its end: then its loss is
// reported.
func Deadline(s *relock.Session, h *relock.Hold) time.Time {
	l := lease.Of(field[acquire.Held](h, "held").(*local.Hold).Lease)
	return time.Now().Add(time.Duration(l.Deadline.Load() - lease.Early - Session(s).Node.Clock.Now()))
}

// HoldID returns the hold id in Redis of a hold that is not a Group's or a Redlock's.
func HoldID(h *relock.Hold) string {
	return lease.Of(field[acquire.Held](h, "held").(*local.Hold).Lease).ID
}

// ChangeScripts changes the texts of the scripts that all sessions of this process send from now on,
// of which s is one. No other session may be in use.
func ChangeScripts(s *relock.Session, change func(name, text string) string) {
	for _, script := range Session(s).Proto.Scripts() {
		script.Text = change(script.Name, script.Text)
		script.Sha.Store(nil)
	}
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
