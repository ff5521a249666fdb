// Package transport sends commands and scripts to one deployment through rueidis.
//
// [Conn] sends on behalf of one session; [SlotMap] knows the primaries of a cluster; [Rounds]
// runs batches side by side, one for each node. The package knows nothing of locks.
//
// # Invariants
//
//   - A call ends with its caller's context, whatever rueidis does (reach.go).
//   - No caller's deadline reaches the shared connection: rueidis would close it, for all
//     users of the client, when the deadline passes.
//   - Outside a cluster a session's commands share one connection and execute in the order in
//     which they are sent. So a release cannot overtake the acquire before it.
//   - Nothing is retried, but a script by its text after NOSCRIPT, and a script with WAIT
//     after MOVED; neither has been executed then.
//   - A node of a cluster that hangs delays only what must go to that node.
//
// # Goroutines
//
// The goroutines that a Conn starts are counted in the WaitGroup given to [NewConn]; the
// session waits for it. Only a call of Dedicate may outlive the session: it ends when rueidis
// yields a connection or the client is closed. [SlotMap.Run] belongs to the caller; the
// goroutines of [Rounds] end before [Rounds.Wait] returns.
package transport
