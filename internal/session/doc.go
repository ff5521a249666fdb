// Package session starts and closes what one relock.Session has of a Redis deployment, and hears its
// messages. How locks are acquired and released there is in package acquire.
//
// Its files, from the ground up: messages.go, what the subscription hears; label.go; commands.go and
// refuse.go, what a server must be able to do; start.go; admin.go, Inspect and ForceUnlock;
// close.go; session.go, which puts the parts together.
//
// Invariants:
//
//   - A message goes to the waiter or the lease that it names, or to nobody.
//   - Close waits for calls first, then for releases, then for goroutines. Only calls that rueidis
//     does not give back outlive it.
//
// A session owns all its goroutines: watchdog, cleaner, queue, keeper, broker and slot map run from
// Start until Close; one more starts the session, if that is done in the background. Close itself
// runs in one goroutine that ends by itself.
package session
