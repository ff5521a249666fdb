package multilock

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/local"
)

// journal is what is done to the locks of a test, in order.
type journal struct {
	mu  sync.Mutex
	did []string
}

func (j *journal) note(what, name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.did = append(j.did, what+" "+name)
}

// taken returns what was done since the last time. What is tried in a row may be tried at the same
// time: it is sorted, but a name that comes again starts the next row.
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

// lock is what members and strangers have in common.
type lock struct {
	*journal
	name string
	busy int // so many of the next attempts find it taken
}

func (l *lock) Name() string { return l.name }

// take makes one attempt, or waits, and reports whether it has the lock.
func (l *lock) take(wait bool) bool {
	if wait {
		l.note("lock", l.name)
		return true
	}
	l.note("try", l.name)
	l.busy--
	return l.busy < 0
}

// strange is a lock of a type that this package does not know.
type strange struct{ lock }

func (j *journal) strange(name string) *strange { return &strange{lock{j, name, 0}} }

func (l *strange) Lock(context.Context) error            { l.take(true); return nil }
func (l *strange) TryLock(context.Context) (bool, error) { return l.take(false), nil }
func (l *strange) Unlock(context.Context) error          { l.note("unlock", l.name); return nil }
func (l *strange) Done() <-chan struct{}                 { return nil }
func (l *strange) Err() error                            { return nil }

// member is a lock that has a place in the order.
type member struct {
	acquire.Leaf // nil: a group calls nothing but what follows
	lock
	rank int // of locks of one name, which comes first
}

func (j *journal) member(name string) *member { return &member{lock: lock{j, name, 0}} }

func (m *member) Name() string          { return m.name }
func (m *member) Order() (string, int)  { return m.name, m.rank }
func (m *member) Parts() []acquire.Part { return nil }

func (m *member) Acquire(_ context.Context, _ *local.Owner, c *acquire.Call) (acquire.Held, error) {
	if !m.take(c.Wait) {
		return nil, nil
	}
	return new(foreign), nil
}

func (m *member) Release(context.Context, acquire.Held, bool) error {
	m.note("unlock", m.name)
	return nil
}

func (m *member) ReleaseInBackground(context.Context, acquire.Held) { m.note("give back", m.name) }
