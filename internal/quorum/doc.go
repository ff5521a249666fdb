// Package quorum locks over several independent deployments. A [Redlock] does the work of a
// relock.Redlock. The algorithm is "Distributed Locks with Redis" of the Redis documentation.
//
// Invariants:
//
//   - A hold is certain while its parts on a majority of the deployments are certain.
//   - No call waits for a deployment longer than a bound; one that did not answer in time is
//     suspect, and not waited for as long as the others are a majority.
//   - A hold that is over takes no part any more, so that no repair outlives its release.
//   - Mutexes are taken in this order: a shard of a deployment's arbiter, a shard of the Redlocks'
//     arbiter, hold.mu.
//
// A hold owns its repairs and waits for them when it ends. No other goroutine outlives a call,
// but for the one that gives the parts of a lost hold back.
//
// The package may import arbiter, engine, lease, lockerr, pubsub, timing and transport.
package quorum
