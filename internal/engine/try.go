package engine

import (
	"context"
	"sync"

	"github.com/relock-go/relock/internal/arbiter"
)

// How a Group locks and unlocks several locks of one engine: each as TryLock and Unlock do, all at the same time. The
// client sends what overlaps in pipelines.

// Piped reports whether l may be one of several.
func (l *Lock) Piped() bool { return true }

// SameKey reports whether another lock has the key of l.
func (l *Lock) SameKey(other *Lock) bool { return l.keys.Name == other.keys.Name }

// TryAll makes one attempt to lock each of several locks of an engine for o, on behalf of a call.
func TryAll(ctx context.Context, o *arbiter.Owner, locks []*Lock, c *Call) (held []bool, errs []error) {
	held, errs = make([]bool, len(locks)), make([]error, len(locks))
	var all sync.WaitGroup
	for i, l := range locks {
		all.Go(func() { held[i], errs[i] = l.Acquire(ctx, o, c.Part(false)) })
	}
	all.Wait()
	return held, errs
}

// UnlockAll ends one Lock of o of each of several locks of an engine.
func UnlockAll(ctx context.Context, o *arbiter.Owner, locks []*Lock) []error {
	ctx = arbiter.WithOwner(ctx, o)
	errs := make([]error, len(locks))
	var all sync.WaitGroup
	for i, l := range locks {
		all.Go(func() { errs[i] = l.Unlock(ctx) })
	}
	all.Wait()
	return errs
}
