// Package queue holds this process's entries in the queues in Redis, and receives their grants. A
// [Queue] polls all of a session's waiters in batches.
//
// Its files, from the ground up: queue.go (waiters), grant.go (messages), poll.go (polls).
//
// Invariants:
//
//   - A hold id is queued once and never again, so that a grant can only be for that entry.
//   - A waiter is polled at least every third of its grant timeout, when a message may have been missed, and
//     while it hears no messages, every 100 ms.
//   - A waiter whose message overtook the reply to the request that queues it is polled at once.
//   - Only the first of a queue listens to the lock's channel, by pattern, and only while Redisson has the
//     lock: there is nothing for others to hear.
//
// The session starts Queue.Run and waits for it. Run ends with Config.Ctx, after the
// rounds of polls that it has started. Messages arrive by Queue.Heard, which does not block; the
// session calls Queue.Resubscribed when it may have missed some.
package queue
