package relock

import (
	"context"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/multilock"
)

// A Group locks several locks as one: all or nothing. Its members may be of any type and any session,
// also groups, which stand for their members. The hold is that of all members: Done closes when the first
// of them is lost, and an owner that holds it enters again.
//
// Groups that share members cannot deadlock each other: the members of one session are tried in one
// pipeline, and if one of them is taken, the others are given back. If that does not help, the group waits
// for one while it holds others, but only for one whose name comes after theirs.
type Group struct {
	_ noCopy
	l *multilock.Group
}

var _ Locker = (*Group)(nil)

// NewGroup returns a group of locks. It sends nothing and cannot fail: no member, a nil member, or
// members that exclude each other, are reported by the first call. A lock that is a member twice is
// locked twice. Members that exclude each other in two sessions are found if the server tells its run
// id; a Lock of them waits for itself otherwise.
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
