package relock

import "github.com/relock-go/relock/internal/multilock"

// A Group locks several locks as one: all or nothing. Its members may be of any type and session; a
// group stands for its members. Its hold is lost with the first member's; [Hold.Members] has the
// members' tokens. An owner that holds the group enters again.
//
// Groups that share members cannot deadlock each other: if a member is taken, a group releases the
// others, or waits while it holds only members whose names come before. It tries the members of one
// session in one pipeline. Several permits of one [Semaphore], in as many sessions, are granted
// only when all are free at once and no other caller waits for one: that may be never.
type Group struct{ handle }

var _ Locker = (*Group)(nil)

// NewGroup returns a group of locks. It sends nothing and cannot fail: the first call reports no
// member, a nil one, or members that exclude each other. (Between two sessions that is found only
// if the server tells its run id; else Lock waits for itself.) A lock given twice is locked twice.
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
