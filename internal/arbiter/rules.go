package arbiter

// Rules tell a table about leases. All functions but Expire are called with a shard locked:
// they must neither block nor use the table.
type Rules[L comparable] struct {
	// Now is the clock.
	Now func() int64
	// Certain reports whether a lease is certain to be held still.
	Certain func(lease L, now int64) bool
	// Expire ends the holds of name on a lease that is no longer certain, through Lose. It
	// is called with no shard locked. The default is Lose.
	Expire func(name string, lease L)
	// Ends returns the latest end of a read lease that is not to be shared. It must not
	// change while the lease is held.
	Ends func(lease L) int64
	// Open makes every call ask Redis by itself instead of one per name.
	Open bool
	// Pass reports whether a lease may be passed to a waiter of that class without asking
	// Redis, and the fencing token to pass it with. It is not asked for read leases.
	Pass func(lease L, class, now int64) (token int64, ok bool)
}
