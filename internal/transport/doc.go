// Package transport sends commands and scripts to one deployment through rueidis.
//
// [Conn] sends on behalf of one session; [SlotMap] knows the primaries of a cluster; [Rounds]
// runs batches side by side, one for each node. The package knows nothing of locks.
//
// Its files, from the ground up: errors.go (what errors mean), context.go, script.go, slot.go and
// slotmap.go (a cluster); role.go (what a server is), path.go (over which connection), pool.go and
// dial.go (connections), reach.go (how commands are given to rueidis), conn.go (scripts), batch.go
// and rounds.go (several at once), replicas.go (WAIT), inquire.go and closed.go (questions at the
// start and the end), start.go (whether the session has started).
//
// # Invariants
//
//   - A call ends with its own context, whatever rueidis does. No such context reaches rueidis, which
//     would close the shared connection for it, for all users of the client (reach.go). A call that can
//     be cancelled takes the slower pipelined mode, in which its release can follow it at once.
//   - Outside a cluster a session's commands share one connection and execute in the order in
//     which they are sent, until the session leaves one that leads nowhere (path.go).
//     So a release cannot overtake the acquire before it. Acquisitions that wait for replicas have
//     a connection of their own.
//   - Nothing is retried, but a script by its text after NOSCRIPT, and a script with WAIT
//     after MOVED, neither of which has been executed then; and a script that only reads.
//   - A node of a cluster that hangs delays only what must go to that node.
//
// # Goroutines
//
// The goroutines that a Conn starts are counted by the tasks given to [NewConn]; the
// session waits for it. While Redis hangs there is one for each call under way, and for each that
// has ended since Redis last answered: at most 576 for each node. Only a call of Dedicate may
// outlive the session, at most 16 for each node: it ends when rueidis yields a connection or the
// client is closed. [SlotMap.Run] and [Conn.Watch] belong to the caller; the goroutines of
// [Rounds] end before [Rounds.Wait] returns.
package transport
