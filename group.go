package relock

import (
	"context"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/multilock"
)

// A Group locks several locks as one: all or nothing. Its members may be of any type and any session,
// also groups, which stand for their members. Done closes when the first member is lost; an owner that
// holds the group enters again.
//
// Groups that share members cannot deadlock each other: if a member is taken, the others are given back, or
// the group waits for it while it holds only members whose names come before. The members of one session are
// tried in one pipeline. A group with several permits of one [Semaphore], in as many sessions, gets them only
// when they are free at once and nobody waits for one: beside others who always do it may wait for ever.
type Group struct {
	_ noCopy
	l *multilock.Group
}

var _ Locker = (*Group)(nil)

// NewGroup returns a group of locks. It sends nothing and cannot fail: the first call reports no member,
// a nil one, or members that exclude each other. (Those of two sessions are found only if the server tells
// its run id; else Lock waits for itself.) A lock that is a member twice is locked twice.
func NewGroup(locks ...Locker) *Group {
	members := make([]engine.Locker, len(locks))
	for i, l := range locks {
		if own, ok := l.(ourLocker); ok && !isNil(l) {
			members[i] = own.member()
		} else if !isNil(l) {
			members[i] = l
		}
	}
	return &Group{l: multilock.New(members...)}
}

// Lock locks every member, or after an error none; see [Locker].
func (g *Group) Lock(ctx context.Context) error { return g.l.Lock(ctx) }

// TryLock locks every member if none is taken; see [Locker].
func (g *Group) TryLock(ctx context.Context) (bool, error) { return g.l.TryLock(ctx) }

// Unlock unlocks every member, whatever happens to the others, and returns their errors
// joined; see [Locker].
func (g *Group) Unlock(ctx context.Context) error { return g.l.Unlock(ctx) }

// Done tells when the latest hold ends, or loses its first member; see [Locker].
func (g *Group) Done() <-chan struct{} { return g.l.Done() }

// Err tells of the latest hold; see [Locker].
func (g *Group) Err() error { return g.l.Err() }

func (g *Group) member() engine.Member { return g.l }
