package relock

import (
	"context"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/multilock"
)

// A Group locks several locks as one: all or nothing. Its members may be of any type
// and any session, also groups themselves.
//
// It is a [Locker]: the hold is that of all members, Done closes when the first of them is lost, and an
// owner that holds it enters again.
//
// Members are locked in an order that depends on their names only, so groups that share
// members cannot deadlock each other, in whatever order they list them. Where names do
// not decide, among members of different deployments with one name or of types that
// this package does not know, the group does not wait for one while it holds another:
// it gives all back and starts with the one that was taken.
//
// The members of one session are tried together, in one pipeline, and released in another. Those that a Lock
// has got are given back when one is taken. If that happens again and again, the members are locked one after
// the other.
type Group struct {
	_ noCopy
	l *multilock.Group
}

var _ Locker = (*Group)(nil)

// NewGroup returns a group of locks. It sends nothing and cannot fail: no member, a nil
// member, or members that exclude each other, are reported by the first call that would
// find out. A lock that is a member twice is locked twice. Members that exclude each other in two sessions
// are found if these know the run id of their server. Some proxies and services hide it: a Lock of such a group
// waits for itself until its context ends.
func NewGroup(locks ...Locker) *Group {
	members := make([]multilock.Locker, len(locks))
	for i, l := range locks {
		members[i] = l
		if own, ok := l.(ourLocker); ok && !isNil(l) {
			members[i] = own.member()
		}
	}
	return &Group{l: multilock.New(members...)}
}

// Lock locks every member; see [Locker]. It blocks until it has them all. After an
// error it has none of them.
func (g *Group) Lock(ctx context.Context) error { return g.l.Lock(ctx) }

// TryLock locks every member if none is taken; see [Locker].
func (g *Group) TryLock(ctx context.Context) (bool, error) { return g.l.TryLock(ctx) }

// Unlock unlocks every member, whatever happens to the others, and returns their errors
// joined; see [Locker].
func (g *Group) Unlock(ctx context.Context) error { return g.l.Unlock(ctx) }

// Done returns a channel that is closed when the latest hold taken through g ends, or
// loses its first member; see [Locker].
func (g *Group) Done() <-chan struct{} { return g.l.Done() }

// Err tells whether the latest hold taken through g is held whole; see [Locker].
func (g *Group) Err() error { return g.l.Err() }

func (g *Group) member() engine.Member { return g.l }
