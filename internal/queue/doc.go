// Package queue holds this process's places in the queues in Redis, and receives their grants. A
// [Queue] probes all of a session's contenders in batches.
//
// Invariants:
//
//   - A hold id is queued once and never again, so that a grant can only be for that place.
//   - A contender is probed at least every third of a claim, when a message may have been missed, and
//     while it hears no messages, every 100 ms.
//   - A contender whose message overtook the reply to the request that queues it is probed at once.
//   - Only the first of a queue listens to the lock's channel, by pattern, and only while Redisson has the
//     lock: there is nothing for others to hear.
//
// The session starts Queue.Run and waits for it. Run ends with Config.Ctx, after the
// rounds of probes that it has started. Messages arrive by Queue.Heard, which does not block; the
// session calls Queue.Resubscribed when it may have missed some.
package queue
