// Package engine acquires, keeps, releases and loses locks of one Redis deployment. An
// [Engine] does the work of a relock.Session; [Mutex], [FairMutex], [RWMutex] and [Reader] do
// that of the public lock types.
//
// An acquisition asks the arbiter first, which decides among the goroutines of this process.
// Only the one it selects asks Redis. The resulting lease is the watchdog's until it is
// released or lost.
//
// Invariants:
//
//   - A lease is registered with the watchdog after its hold exists and before Lock returns,
//     so that no loss goes unnoticed.
//   - Renewals of a lease stop before its release is sent, so that nothing renews a lock that
//     was unlocked.
//   - What Redis may have granted to a failed or cancelled call goes to the cleaner.
//   - Every loss goes through Engine.lost, once: Lost is the way there for a loss that the
//     engine finds, and exit for one that the arbiter finds at an unlock.
//   - No Redis I/O happens under a mutex.
//
// The engine owns all its goroutines: watchdog, cleaner, queue, broker and slot map run in its
// WaitGroup from Start until Close. Close itself runs in one goroutine that ends by itself.
package engine
