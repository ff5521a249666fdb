// Package peek lets the tests of this module look into a session of the root package, which sets its variables.
// Nothing but tests calls them, and the command relock [Open].
package peek

import (
	"context"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/quorum"
	"github.com/relock-go/relock/internal/wire"
)

// The root package sets these. A session is a *relock.Session, a lock a *relock.RWMutex or a
// *relock.Redlock.
var (
	Engine  func(session any) *engine.Engine
	Reader  func(lock any) *engine.Lock // the read side
	Locked  func(lock any) any          // of a relock.Locker: what was locked last through it, as a *relock.Hold
	Redlock func(lock any) *quorum.Redlock
	Scripts func() *wire.Scripts
)

// Open opens the lock of a name if nobody holds it but these, by their hold ids, and reports whether it
// was locked. If somebody else does, it changes nothing and returns wire.ErrOtherHolder.
func Open(ctx context.Context, session any, name string, holders []string) (bool, error) {
	if len(holders) == 0 {
		return false, nil
	}
	return Engine(session).ForceUnlock(ctx, name, holders...)
}
