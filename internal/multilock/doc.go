// Package multilock locks several locks as one, all or nothing. A [Group] does the work of a
// relock.Group.
//
// Invariants:
//
//   - While a call holds a member it waits only for members later in the canonical order, so
//     that groups cannot deadlock each other.
//   - A call that fails holds none of the members; what it had is released in the background.
//   - A hold of a group is lost with the first of its members. That is told with a shard of the
//     member's table locked, and locks one of the group's: never the other way round.
//
// A member of a type that this module does not know is a stranger. A goroutine watches each. It
// belongs to the hold, whose end waits for it. No other goroutine outlives a call.
package multilock
