// Package relock provides distributed locks on Redis: mutual exclusion between processes, and
// between the goroutines of each. A lock is held under a lease, which is renewed while its
// process lives. Its holder hears when it is lost, and every hold has a fencing token. The wire
// format is Redisson's, so Go and Java services can share locks.
//
//	session, err := relock.NewSession(ctx, client, relock.WithPrefix("lock:")) // one per process
//	if err != nil {
//		return err
//	}
//	defer session.Close(context.Background()) // waits for Redis, 5 s at most
//
//	err = relock.Do(ctx, session.Mutex("goods:1000:1"), func(ctx context.Context) error {
//		// ctx is cancelled when the lock is lost. The store remembers the largest
//		// token it has seen, and refuses smaller ones.
//		token := relock.Token(ctx)
//		stock, err := store.Stock(ctx, token)
//		if err != nil || stock == 0 {
//			return err
//		}
//		return store.SetStock(ctx, stock-1, token)
//	})
//	if errors.Is(err, relock.ErrLost) {
//		// The last write may or may not have been made: check, or repeat it.
//	}
//
// A session makes a [Mutex], a [FairMutex], an [RWMutex], or a [Semaphore], which up to n may hold.
// A [Group] locks several at once; a [Redlock] is a lock over several independent deployments of
// Redis. [Do] is the usual way to use any of them. Acquire returns a [Hold] where that outlives a
// function, and Lock and Unlock have the shape of a [sync.Mutex].
//
// # When not to use it
//
// Often something else is better than a lock: a transaction or a unique constraint, if all that
// changes is in one database; an idempotency key, if a request must not take effect twice; a queue
// with acknowledgements; one Redis command; in one process [sync.Mutex]. If two processes at once
// do damage, let what they change check fencing tokens as well.
//
// # Words
//
// A hold is one acquisition of one lock, from Acquire or Lock to its Unlock or loss, and a lease
// its time to live in Redis. An owner is a unit of work, such as a request, whose contexts carry it
// ([Session.NewContext]): it may enter again what it holds. The hand-off window is how long a
// process may pass a lock on among its goroutines without a round trip ([WithTenure]).
//
// # Leases and loss
//
// A process that has died cannot unlock. So Redis keeps a hold only for its lease, 30 seconds
// unless [WithLease] says otherwise, and the watchdog renews it when a third has passed. A lease of
// [WithFixedLease] is not renewed. [WithMaxHold] bounds how long a holder that may be stuck keeps
// the lock, and [WithMinHold] keeps it taken after Unlock.
//
// While Redis does not answer, a holder still knows how long its hold is valid: for the lease,
// counted from when the last successful acquisition or renewal was sent, less a margin for clocks
// that run at different rates. At that local deadline the hold is lost. It is lost at once when a
// renewal finds it gone, by [Session.ForceUnlock], and by [Session.Close]. The holder hears of it
// in three ways: Done's channel is closed, and Err returns [ErrLost]; the context that Do gives to
// its function, or [Hold.Context] returns, is cancelled, with ErrLost as cause; Unlock, and so Do,
// returns it. That error is also [ErrExpired], [ErrGone], [ErrForced] or [ErrClosed], which say
// why. On loss stop, and unlock as usual: work that was under way is in the state that a crash
// would have left.
//
// The context given to Lock bounds the wait for the lock, not the hold. [WithWait] bounds the wait
// in Do, whose context bounds the work too.
//
// # Fencing tokens
//
// A holder that is paused between its last look at Done and its write writes when it resumes, even
// if others have held the lock since. Only the store can prevent that: send it the token of the
// hold ([Token] in Do, else [Hold.Token]) with every access, including reads that writes depend on,
// and let it refuse a token smaller than the largest it has seen.
//
// Tokens grow, though not by one. They follow the server's clock, so they also grow when Redis has
// lost its data or another server has taken over, unless its clock is behind the old one. A clock
// that steps back later than a minute after an acquisition, by more than the time since, makes the
// next token smaller: let it be slewed, not set. Tokens are positive, and below 2^53 until the year
// 2248. Readers of an [RWMutex] have no token; each member of a [Group] has its own.
//
// Martin Kleppmann objected to Redlock that it has no fencing tokens. A [Redlock] of this package
// has: whichever majority grants it, its tokens grow, also if the clocks of the servers differ.
// What he says of every lock with a lease is true of this one as well: the store must refuse a
// smaller token.
//
// # What is guaranteed
//
// As long as Redis keeps its data:
//
//   - Exclusion. At most one hold of a lock is valid at a time, but for readers and permits, even if processes pause,
//     crash, or lose the network.
//   - Loss is reported by the local deadline, even if Redis or the network hangs.
//   - Nothing stays behind. What a failed Lock may have been granted is released in the background;
//     what cannot be released, and what a dead process held, is free within a lease (of readers: the
//     longest of those that read together).
//   - An Unlock never releases somebody else's hold: a [Hold] ends only itself, an owner ends only its own. Goroutines that
//     lock and unlock through one lock value without an owner share its holds, as they would share a [sync.Mutex].
//   - No waiter sleeps for ever.
//   - A request that is sent twice, because its reply was lost, has the outcome of one sent once.
//   - Within 50 ms of Lock returning, the hold has its full lease in Redis, even if another process handed it over.
//     A hold that another goroutine of the session handed over, and a reader that joins others, have at least half
//     of it.
//   - A session's goroutines and connections do not grow with the number of locks, holds or waiters.
//
// # What is not promised
//
//   - That a holder has stopped when its hold has ended. Check tokens, write to the same Redis by [Hold.Eval], or watch
//     Done where the harm is small.
//   - That a lock survives loss of data in Redis. A failover loses a hold that the replica had not received;
//     [WithReplicas] narrows that window. A server that restarts without its latest data, or evicts keys, loses
//     holds as well: set maxmemory-policy to noeviction.
//   - Exclusion when the server's clock jumps ahead: leases end early then. Clients' clocks are never compared
//     with it; their rates may differ from its rate by at most 0.2 %.
//   - Detection of a suspend outside Linux: a machine that was suspended believes in its holds for that much
//     longer.
//   - Strict order between processes, except from a [FairMutex] or a [Semaphore].
//
// # Owners and re-entry
//
// Goroutines have no identity in Go; the context says who locks. Under an ordinary one every
// acquisition is its own, and a lock value behaves as a [sync.Mutex] or a [sync.RWMutex] does; see
// [Locker].
//
// [Session.NewContext] puts an owner into a context. Goroutines that share it do not exclude each
// other. It may lock again what it holds: that only counts, and the last Unlock releases. Give one
// to a unit of work whose parts lock the same thing without knowing of each other:
//
//	ctx = session.NewContext(ctx)
//	err := relock.Do(ctx, session.Mutex("account:7"), func(ctx context.Context) error {
//		return book(ctx, 7) // which locks account:7 too
//	})
//
// An owner whose hold was lost gets [ErrLost] from Lock and TryLock of that lock, of either side of
// an [RWMutex], until it has unlocked. A hold that is renewed lasts until its Unlock, or until
// Close, also if the [Hold] or the lock value is garbage.
//
// # Another process goes on
//
// [Hold.Handoff] ends a hold without unlocking, and returns a ticket. The process that presents it
// in time gets the lock ([Session.Adopt]), which is never free in between. A ticket is a secret.
//
// # Waiting and fairness
//
// A caller that finds the lock taken queues in Redis and waits for a message. Unlock grants the
// lock to the first reachable waiter, for at most 5 s; 20 ms later the winner has extended that to
// its lease. A waiter also polls every few seconds. One that was passed over, because its session
// could not be reached, comes back in order of its arrival.
//
// While Redis does not answer, a waiting Lock goes on to try. If its context ends then, the error
// is [ErrUnavailable] as well, and not [ErrTaken]: it is not known whether the lock is taken.
//
// # The end of a process
//
// [Session.Shutdown] grants nothing new and waits until all holds have ended, as http.Server's
// Shutdown does for requests; [Session.Close] ends them.
//
// # Names and keys
//
// The name of a lock is a key in Redis, a hash. Give the session a prefix that nothing else has
// ([WithPrefix]), unless Redisson shares the locks. A key that is not a lock is never changed:
// every call returns [ErrNotLock]. A lock has no room for fields of an application: they are not
// kept, and calls may return ErrNotLock while they are there.
//
// SECURITY.md says what another user of the same Redis can do.
//
// # Redisson
//
// A Mutex is stored like an RLock of Redisson (3.x and 4.x), an RWMutex like an RReadWriteLock, so
// those of one name exclude each other. Redisson's waiters hear of a release, and have turns in the
// queue; relock polls while Redisson has the lock. A FairMutex has the hash of a Mutex, and so
// excludes both; its queue is its own. Redisson's fair and spin locks exclude a Mutex as well, but
// do not hear of its release, and wait for their timers. Do not use one name for a read-write lock
// and another kind, and do not compare tokens with those of an RFencedLock. A Semaphore is not
// shared with Redisson: a sorted set, whose name is no other lock's. If another lock is tried under
// that name, the waiters for the two may delay each other by a grant timeout.
//
// For a lock job:1 there are keys and channels with {job:1} in their names: docs/operating.md lists
// them. The braces are a hash tag, which keeps the keys in one slot of a cluster. A name that
// contains a brace gets none added, and needs a hash tag of its own. So the names a and {a} are two
// locks that share tokens and channels, as in Redisson, and nothing that one could take from the
// other.
package relock
