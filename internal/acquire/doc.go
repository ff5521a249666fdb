// Package acquire gets a lock from Redis, and gives it back. A [Lock] does the work of the public
// lock types of one deployment; a Group and a Redlock are built on it.
//
// A call asks the table of its process first (package local), which says whether it may have the
// lock, must wait, or is to ask Redis. Then it is an acquisition, which goes through five stages
// until it has a lease: request.go draws them. What it has in Redis when it ends without a lease is
// given back in one place, giveUp. Every kind of lock takes this way, with another value of
// wire.Kind; a share of a Redlock and the adoption of a ticket take the part of it that they need.
//
// Its files, from the ground up:
//
//	call.go     what observers are told of a call
//	node.go     what all locks of a session share; how leases are lost and recalled
//	lock.go     a lock: its name, its options
//	here.go     which call of this process has a lock
//	facts.go    what a call says if it ends without the lock
//	scope.go    sections, and the locks that they hold
//	release.go  how a hold ends
//	turn.go     how a call waits for its turn in the process
//	wait.go     how it waits in Redis
//	read.go     how readers share a lease
//	request.go  how it asks Redis
//	acquire.go  the whole of it
//	handoff.go  how a hold goes to another process
//	share.go    what a Redlock has on one deployment
//	member.go   what all lock types can do
//
// Invariants:
//
//   - A lease is known to the registry before its acquisition is sent, so that no message misses it,
//     and to the watchdog after its hold exists and before Lock returns, so that no loss is missed.
//   - Renewals of a lease stop before its release is sent, so that nothing renews a lock that was
//     unlocked.
//   - What Redis may have granted to a failed or cancelled call goes to the cleaner.
//   - Every loss goes through Node.Lost, once.
//   - No Redis I/O happens under a mutex, and no function of a user is called under one.
//
// The package starts no goroutine. Those of a session belong to package session.
package acquire
