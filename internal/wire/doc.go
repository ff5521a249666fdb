// Package wire knows how locks are stored in Redis and what is sent there: the names of keys
// and channels, one typed call for each script, and their replies.
//
// Mutexes and RWMutexes are stored in Redisson's format, so that both exclude each other;
// fencing tokens and queues are relock's own. The package knows nothing of who
// calls it or why, and keeps no state of a lock.
//
// # Invariants
//
//   - All keys of a lock share one slot of a cluster; CheckName refuses names that prevent it.
//   - A script may be sent twice with the same arguments without another outcome; its header
//     says why. So an answer that got lost is found again by asking once more.
//   - A hold id is never used again, so a late release ends nothing but its own hold.
//   - Leases run by the server's clock: the client passes lengths, never points in time.
//
// Its files, from the ground up: name.go (names of keys and channels), label.go, ticket.go;
// replies.go and notlock.go (what replies mean, to any script); scripts.go (the texts); kind.go
// (what a kind of lock is asked), and mutex.go, fairmutex.go, writer.go, reader.go and
// semaphore.go, one for each kind; calls.go (one hold in a call), many.go (many holds in one),
// admin.go (inspect and force).
//
// The package starts no goroutines; those of its calls belong to transport.
package wire
