package multilock

import (
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lease"
)

// journal is what is done to the locks of a test, in order.
type journal struct {
	mu  sync.Mutex
	did []string
}

// taken returns what was done since the last time.
func (j *journal) taken() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	did := j.did
	j.did = nil
	return did
}

// stranger is a lock of a type that this package does not know.
type stranger struct {
	*journal
	name string
	busy bool  // the next TryLock finds it taken
	err  error // of the next Lock or TryLock
	done chan struct{}
}

func (j *journal) stranger(name string) *stranger {
	return &stranger{journal: j, name: name, done: make(chan struct{})}
}

func (l *stranger) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did = append(l.did, what+" "+l.name)
}

func (l *stranger) Lock(context.Context) error {
	l.note("lock")
	return l.err
}

func (l *stranger) TryLock(context.Context) (bool, error) {
	l.note("try")
	taken := l.busy
	l.busy = false
	return !taken && l.err == nil, l.err
}

func (l *stranger) Unlock(context.Context) error { l.note("unlock"); return nil }
func (l *stranger) Done() <-chan struct{}        { return l.done }

// member is a lock that has a place in the order.
type member struct {
	*stranger
	engine.Reported     // what is reported of it, which is nothing here
	after           int // of locks of one name, which comes first
	end             *func(arbiter.State)
}

func (j *journal) member(name string) *member { return &member{stranger: j.stranger(name)} }

func (m *member) Order() (string, int)                                { return m.name, m.after }
func (m *member) Engines() []*engine.Engine                           { return nil }
func (m *member) HeldBy(*arbiter.Owner) engine.Held                   { return m }
func (m *member) ExpireIfDue(*arbiter.Owner)                          {}
func (m *member) ReleaseInBackground(context.Context, *arbiter.Owner) { m.note("give back") }
func (m *member) Parts() []engine.Part                                { return nil }
func (m *member) Remaining(*arbiter.Owner) time.Duration              { return time.Duration(lease.Forever) }
func (m *member) OnEnd(f *func(arbiter.State))                        { m.end = f }
func (m *member) Forget(*func(arbiter.State))                         { m.end = nil }
func (m *member) State() arbiter.State                                { return arbiter.Live }
func (m *member) Fence() int64                                        { return 0 }

func (m *member) DeadlineOf(engine.Held) (time.Time, bool)            { return time.Time{}, false }
func (m *member) Taken(engine.Held, string) []engine.Part             { return nil }
func (m *member) WaitsForItself(context.Context, *arbiter.Owner) bool { return false }

var _ engine.Member = (*member)(nil)
