package engine

import (
	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/wire"
)

// What tests observe, through package peek.

// Queued returns how many calls on a Mutex or RWMutex wait for a goroutine of this process. Those
// that ask Redis are not counted.
func (e *Engine) Queued(name string) int {
	mutexes, rws, key := e.arbiters[wire.Plain], e.arbiters[wire.Read], e.keyOf(name)
	return mutexes.Waiting(key, arbiter.Write) + rws.Waiting(key, arbiter.Read) + rws.Waiting(key, arbiter.Write)
}

// KnowsRW reports whether the arbiter has an entry for any RWMutex.
func (e *Engine) KnowsRW() bool { return e.arbiters[wire.Read].Len() > 0 }

// Waits reports whether a call waits in Redis for a lock, or for its release.
func (e *Engine) Waits(name string) bool {
	key := e.keyOf(name)
	return e.queue.Len(key) > 0 || e.broker.Listeners(wire.NewKeys(wire.Plain, key).Channel) > 0
}

// Watchers returns how many callbacks wait for the end of the hold of a Mutex.
func (e *Engine) Watchers(name string) int {
	return e.arbiters[wire.Plain].Lookup(e.keyOf(name)).Watchers()
}

// KeepAtMost sets how many locks are kept, before any is.
func (e *Engine) KeepAtMost(n int) { e.keeper.most = n }

// SetDeployment sets what Start would find out.
func (e *Engine) SetDeployment(id string) { e.deployment = id }
