package peek

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/quorum"
	"github.com/relock-go/relock/internal/wire"
)

// The root package sets these. A session is a *relock.Session, a lock a *relock.RWMutex or a
// *relock.Redlock.
var (
	Engine  func(session any) *engine.Engine
	Reader  func(lock any) *engine.Lock // the read side
	Redlock func(lock any) *quorum.Redlock
	Scripts func() *wire.Scripts
)

// Queued returns how many calls of the session wait for the exclusive lock of that name in
// this process.
func Queued(session any, name string) int { return Engine(session).Queued(name) }

// QueuedRW returns how many readers and writers of the session wait in this process.
func QueuedRW(session any, name string) (readers, writers int) { return Engine(session).QueuedRW(name) }

// KnowsRW reports whether the session remembers any RWMutex.
func KnowsRW(session any) bool { return Engine(session).KnowsRW() }

// Waits reports whether a call of the session waits in Redis for a lock.
func Waits(session any, name string) bool { return Engine(session).Waits(name) }

// Watchers returns how many goroutines watch the hold of that name.
func Watchers(session any, name string) int { return Engine(session).Watchers(name) }

// Skip steps the session's clock ahead.
func Skip(session any, d time.Duration) { Engine(session).Clock.Skip(d) }

// ReadDeadline returns the local deadline of the latest read hold taken through an RWMutex.
func ReadDeadline(lock any) (time.Time, bool) { return Reader(lock).Deadline() }

// RedlockQueued returns how many calls wait for a Redlock in this process.
func RedlockQueued(lock any) int { return Redlock(lock).Queued() }

// Open opens the lock of a name if nobody holds it but these, by their hold ids, and reports whether it
// was locked. If somebody else does, it changes nothing and returns wire.ErrOtherHolder.
func Open(ctx context.Context, session any, name string, holders []string) (bool, error) {
	if len(holders) == 0 {
		return false, nil
	}
	return Engine(session).ForceUnlock(ctx, name, holders...)
}
