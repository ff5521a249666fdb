// Package queue holds this process's entries in the queues in Redis, and receives their grants. A
// [Queue] polls all of a session's waiters in batches.
//
// Its files, from the ground up: queue.go (waiters), grant.go (messages), poll.go (polls).
//
// Invariants:
//
//   - A hold id is queued once and never again, so that a grant can only be for that entry.
//   - A waiter is polled at least every third of its grant timeout, 1 ms after the end of the lease that
//     the last reply told, and when a message for it may have been missed.
//   - A waiter whose message overtook the reply to the request that queues it is polled at once.
//   - A poll that Redis does not answer, or refuses for the moment, is tried again after 100 ms at the
//     earliest.
//   - Nobody listens to Redisson's channel. Only the first of a queue polls more often while Redisson has
//     the lock, or its turn: after 1 ms, then after a 32nd of the time so far. The more locks of
//     Redisson's the session waits for, the less often.
//
// The session starts Queue.Run and waits for it. Run ends with Config.Ctx, after the
// rounds of polls that it has started. Messages arrive by Queue.Heard, which does not block; the
// session calls Queue.Resubscribed when it may have missed some.
package queue
