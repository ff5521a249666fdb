// Package quorum locks over several independent deployments. A [Redlock] does the work of a
// relock.Redlock. The algorithm is "Distributed Locks with Redis" of the Redis documentation.
//
// Its files, from the ground up: redlock.go (the lock, and how it is unlocked), hold.go (what a hold
// has of the deployments), round.go (how it is acquired). A call gets its turn in the process as one
// of any lock does (acquire.Turn).
//
// Invariants:
//
//   - A hold is valid while its shares on a majority of the deployments are valid.
//   - No call waits for a deployment longer than a bound, nor for a minority at all.
//   - A hold that is over takes no share any more, so that no repair outlives its release.
//   - Mutexes are taken in this order: a shard of the Redlocks' table, hold.mu.
//
// Requests to a minority may go on after a call has returned; they end in time, and Close of their
// session waits for them.
package quorum
