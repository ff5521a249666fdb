// Package queue holds this process's places in the fair queues in Redis, and receives their
// grants. A [Queue] probes all of an engine's waiters in batches.
//
// Invariants:
//
//   - A hold id is enqueued once and never again, so that a grant can only be for that place.
//   - A waiter is probed at least every half claim, when the lock may have become free, and when
//     a message may have been missed.
//   - Whoever enqueues has subscribed to its grants before.
//
// The engine starts Queue.Run and waits for it. Run ends when Stopping is closed, after the
// rounds of probes that it has started. Messages arrive by Queue.Granted, which does not block.
//
// The package may import clock, lease, pubsub, timing, transport and wire.
package queue
