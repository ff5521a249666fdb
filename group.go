package relock

import "github.com/relock-go/relock/internal/multilock"

// A Group locks several locks as one: all or nothing. Its members may be of any type and any
// session, also groups, which stand for their members. Its hold is lost with the first member's;
// [Hold.Members] has the members' tokens. An owner that holds the group enters again.
//
// Groups that share members cannot deadlock each other: if a member is taken, the others are
// released, or the group waits for it while it holds only members whose names come before. The
// members of one session are tried in one pipeline. A group with several permits of one
// [Semaphore], in as many sessions, gets them only when they are free at once and no other caller
// waits for one: it may wait for ever.
type Group struct{ handle }

var _ Locker = (*Group)(nil)

// NewGroup returns a group of locks. It sends nothing and cannot fail: the first call reports no
// member, a nil one, or members that exclude each other. (Those of two sessions are found only if
// the server tells its run id; else Lock waits for itself.) A lock that is given twice is locked
// twice.
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
