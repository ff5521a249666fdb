package multilock

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
)

// journal is what is done to the locks of a test, in order.
type journal struct {
	mu  sync.Mutex
	did []string
}

// taken returns what was done since the last time. What is tried in a row may be tried at the same time: it is sorted,
// but a name that comes again starts the next row.
func (j *journal) taken() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	did := j.did
	j.did = nil
	for from := range did {
		to := from
		for to < len(did) && strings.HasPrefix(did[to], "try ") && !slices.Contains(did[from:to], did[to]) {
			to++
		}
		if from == 0 || !strings.HasPrefix(did[from-1], "try ") {
			slices.Sort(did[from:to])
		}
	}
	return did
}

// strange is a lock of a type that this package does not know.
type strange struct {
	*journal
	name string
	busy int   // so many of the next TryLocks find it taken
	err  error // of the next Lock or TryLock
	done chan struct{}
	then func() // at the next TryLock
	once error  // of the first TryLock that does not find it taken
}

func (j *journal) strange(name string) *strange {
	return &strange{journal: j, name: name, done: make(chan struct{})}
}

func (l *strange) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did = append(l.did, what+" "+l.name)
}

func (l *strange) Lock(context.Context) error {
	l.note("lock")
	return l.err
}

func (l *strange) TryLock(context.Context) (bool, error) {
	l.note("try")
	if f := l.then; f != nil {
		l.then = nil
		f()
	}
	if l.busy > 0 {
		l.busy--
		return false, l.err
	}
	if err := l.once; err != nil {
		l.once = nil
		return false, err
	}
	return l.err == nil, l.err
}

func (l *strange) Unlock(context.Context) error { l.note("unlock"); return nil }
func (l *strange) Done() <-chan struct{}        { return l.done }
func (l *strange) Name() string                 { return l.name }
func (l *strange) Err() error                   { return nil }

// member is a lock that has a place in the order.
type member struct {
	*strange
	*arbiter.Hold[int]                        // of any owner
	after              int                    // of locks of one name, which comes first
	look               func(o *arbiter.Owner) // when it is asked for its hold
}

func (j *journal) member(name string) *member {
	return &member{strange: j.strange(name), Hold: new(arbiter.Hold[int]), look: func(*arbiter.Owner) {}}
}

func (m *member) Acquire(ctx context.Context, _ *arbiter.Owner, c *engine.Call) (bool, error) {
	if !c.Wait {
		return m.TryLock(ctx)
	}
	return true, m.Lock(ctx)
}

func (m *member) Done() <-chan struct{}                               { return m.Hold.Done() }
func (m *member) Order() (string, int)                                { return m.name, m.after }
func (m *member) HeldBy(o *arbiter.Owner) engine.Held                 { m.look(o); return m.Hold }
func (m *member) ReleaseInBackground(context.Context, *arbiter.Owner) { m.note("give back") }
func (m *member) Parts() []engine.Part                                { return nil }
func (m *member) DeadlineOf(engine.Held) (time.Time, bool)            { return time.Time{}, false }
func (m *member) Taken(engine.Held, string) []engine.Part             { return nil }
func (m *member) WaitsForItself(context.Context, *arbiter.Owner) bool { return false }

var _ engine.Leaf = (*member)(nil)
