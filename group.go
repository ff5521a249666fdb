package relock

import (
	"context"

	"github.com/relock-go/relock/internal/multilock"
)

// A Group locks several locks as one: all or nothing. Its members may be of any type
// and any session, also groups themselves.
//
// Handles come from [NewGroup]; methods of the zero Group return an error. A Group must
// not be copied after first use, and is safe for concurrent use. It is a [Locker]: the
// hold is that of all members, Done closes when the first of them is lost, and it is
// re-entrant where its members are.
//
// Members are locked in an order that depends on their names only, so groups that share
// members cannot deadlock each other, in whatever order they list them. Where names do
// not decide, among members of different deployments with one name or of types that
// this package does not know, the group does not wait for one while it holds another:
// it gives all back and starts with the one that was taken.
//
// Mutexes of one session whose keys share a slot (any keys, outside a cluster) are
// taken by one script in one round trip, and released by another.
type Group struct {
	_ noCopy
	l *multilock.Group
}

var _ Locker = (*Group)(nil)

// NewGroup returns a group of locks. It sends nothing and cannot fail: no member, a nil
// member, or members that exclude each other, are reported by the first call that would
// find out. A lock that is a member twice is locked twice.
func NewGroup(locks ...Locker) *Group {
	members := make([]multilock.Locker, len(locks))
	for i, l := range locks {
		members[i] = l
		if own, ok := l.(interface{ engineLock() multilock.Locker }); ok && !isNil(l) {
			members[i] = own.engineLock()
		}
	}
	return &Group{l: multilock.New(members...)}
}

// Lock locks every member; see [Locker]. It blocks until it has them all. After an
// error it has none of them.
func (g *Group) Lock(ctx context.Context) error { return on(ctx, g.lock()).Lock(ctx) }

// TryLock locks every member if none is taken; see [Locker].
func (g *Group) TryLock(ctx context.Context) (bool, error) { return on(ctx, g.lock()).TryLock(ctx) }

// Unlock unlocks every member, whatever happens to the others, and returns their errors
// joined; see [Locker].
func (g *Group) Unlock(ctx context.Context) error { return on(ctx, g.lock()).Unlock(ctx) }

// Done returns a channel that is closed when the latest hold taken through g ends, or
// loses its first member; see [Locker].
func (g *Group) Done() <-chan struct{} { return g.lock().Done() }

// Err tells whether the latest hold taken through g is held whole; see [Locker].
func (g *Group) Err() error { return g.lock().Err() }

func (g *Group) engineLock() multilock.Locker { return g.l }

// lock returns the lock of g, nil if g is nil; that is as unusable as a zero one.
func (g *Group) lock() *multilock.Group {
	if g == nil {
		return nil
	}
	return g.l
}
