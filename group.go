package relock

import "github.com/relock-go/relock/internal/multilock"

// A Group locks several locks as one: all or nothing. Its members may be of any type and session; a
// nested group counts as its members. Its hold is lost with the first member's; [Hold.Members] has
// the tokens. An owner that holds the group enters again.
//
// Groups that share members cannot deadlock each other: while a group waits for a member, it holds
// at most those whose names come before. Several permits of one [Semaphore], in as many sessions,
// are granted only when all are free and nobody else waits: perhaps never.
type Group struct{ handle }

var _ Locker = (*Group)(nil)

// NewGroup returns a group of locks. It sends nothing and cannot fail: the first call returns
// [ErrOption] for no member, a nil one, or members that exclude each other. (If these are of two
// sessions, and the server does not tell its run id, Lock waits for itself.) A lock given twice is
// locked twice.
func NewGroup(locks ...Locker) *Group {
	members := make([]any, len(locks))
	for i, l := range locks {
		switch {
		case isNil(l):
		case handleOf(l) != nil:
			members[i] = handleOf(l).l
		default:
			members[i] = l
		}
	}
	g := new(Group)
	g.l = multilock.New(members...)
	return g
}
