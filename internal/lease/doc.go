// Package lease keeps the leases of a session. The [Watchdog] renews them and enforces their local
// deadlines; the [Cleaner] releases in the background what no call waits for; the [Keeper] ends the
// keeping of leases that nobody uses; the [Registry] finds the lease that a message names.
//
// Its files, from the ground up: lease.go, registry.go, watchdog.go, renew.go (its renewals),
// keeper.go, cleanup.go.
//
// Invariants:
//
//   - A lease is valid for its length, minus [Margin], from when its last successful
//     acquisition or renewal was sent.
//   - A deadline is enforced whether Redis answers or not: the goroutine that watches the time
//     does no I/O.
//   - After [Watchdog.Stop] no renewal of the lease is sent.
//   - A release that is not over in time is cancelled by the watchdog, which needs no timer for it.
//   - The cleaner tries until Redis confirms that a hold is gone, or its lease has expired.
//
// The session starts Watchdog.Run, Watchdog.RunRenewals, Cleaner.Run and Keeper.Run, and waits for
// them. Each
// ends when stopping is closed, after the rounds of requests that it has started. Callbacks run
// without a mutex of this package.
package lease
