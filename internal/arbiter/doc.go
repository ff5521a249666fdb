// Package arbiter decides which goroutine of this process may have a lock, and which one asks
// Redis for it.
//
// A [Table] arbitrates the locks of one kind. Per name at most one goroutine, the contender, talks
// to Redis, and only while the process has no hold; the others wait in FIFO order. The end of a
// hold either passes the lease to the next waiter or leaves its release to the caller, who reports
// when that is done. A read-write lock has a read side too; see readers.go, and queue.go for who
// waits.
//
// A call is made for an [Owner], for a crowd of readers, or for itself alone. Every call that was
// granted a hold is to end it once: its last end ends the hold.
//
// # Invariants
//
//   - At most one of exclusive hold and contender is set per name (in an open table, every
//     call asks Redis for itself, and there is no contender), unless the hold was adopted from
//     another process while the contender asked.
//   - An owner has at most one hold on each side of a name that awaits an unlock, live or lost.
//     While it has a lost one, it gets no other.
//   - A hold ends exactly once, which closes its Done channel. After a loss, Tell calls its functions.
//   - A table knows the holds that are live. One that was lost is known to its owner and the caller
//     alone, and is garbage with them.
//   - An owner re-enters only a hold whose lease is certain. A hold past its deadline is lost
//     before its owner enters.
//   - If a waiter is granted a hold while it is being cancelled, Quit returns that hold, and
//     the caller gives it back.
//
// A shard's mutex guards all names of the shard, with their holds and waiters. Hold.mu is taken
// under it, Hold.more and Owner.mu too; all are leaves. The package does no I/O, imports nothing of
// the module, and starts no goroutine.
package arbiter
