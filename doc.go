// Package relock provides distributed locks on Redis: mutual exclusion between processes, and
// between the goroutines of each. A lock is held under a lease, which is renewed while its process
// lives. Its holder is told if the lock is lost, and every hold has a fencing token. The wire
// format is Redisson's, so Go and Java services can share locks.
//
//	// client is a rueidis.Client, for a single server, Sentinel or a cluster.
//	session, err := relock.NewSession(ctx, client, relock.WithPrefix("lock:")) // one per process
//	if err != nil {
//		return err
//	}
//	defer session.Close(context.Background()) // waits for Redis, 5 s at most
//
//	err = relock.Do(ctx, session.Mutex("goods:1000:1"), func(ctx context.Context) error {
//		// ctx is cancelled when the lock is lost. Your store remembers the largest token
//		// it has seen, and refuses smaller ones.
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
// A session makes a [Mutex], a [FairMutex], an [RWMutex], or a [Semaphore], which gives permits to
// up to n holders. A [Group] locks several at once; a [Redlock] spans several independent
// deployments of Redis. [Do] is the usual way to use any of them. Acquire returns a [Hold], for
// work that is not one function. Lock and Unlock, which take a context, work like those of a
// [sync.Mutex].
//
// # When not to use it
//
// Often something else is better: a transaction or a unique constraint, an idempotency key, a queue
// with acknowledgements, one Redis command, or, within one process, a [sync.Mutex].
// docs/which-lock.md helps to choose.
//
// # Words
//
// A hold is one acquisition of a lock, from Acquire or Lock to its Unlock or loss. A lease is its
// time to live in Redis. An owner is a unit of work, such as a request, that may enter again what
// it holds; its contexts carry it ([Session.NewContext]). The hand-off window is the time, 10 ms by
// default, during which the goroutines of a process pass a lock among themselves without a round
// trip, before others get it ([WithTenure]). A lock value is what [Session.Mutex] and the like
// return.
//
// # Leases and loss
//
// A dead process cannot unlock. So Redis keeps a hold only for its lease, 30 seconds by default
// ([WithLease]), and the session's watchdog renews it every third of that. [WithFixedLease] is for
// leases that are not renewed, [WithMaxHold] ends a hold whose work may hang, and [WithMinHold]
// keeps the lock taken after Unlock.
//
// A holder knows by its own clock how long its hold is valid, even while Redis does not answer: the
// hold is valid for one lease, less a margin for clocks that run at different rates, counted from
// when the last successful acquisition or renewal was sent. The hold is lost at this local
// deadline, or earlier if a renewal finds it gone, or [Session.ForceUnlock] or [Session.Close] ends
// it. The holder hears of a loss in three ways:
//
//   - Done's channel is closed, and Err returns [ErrLost].
//   - The context that Do passes to its function, or that [Hold.Context] returns, is cancelled,
//     with ErrLost as its cause.
//   - Unlock returns ErrLost, and so does Do.
//
// The error also matches one of [ErrExpired], [ErrGone], [ErrForced] and [ErrClosed], which gives
// the reason. After a loss, stop, and unlock as usual. Unfinished work is in the state that a crash
// would have left.
//
// Lock's context bounds the wait, not the hold. Do passes its context on, so a deadline there
// bounds the work too; [WithWait] bounds only the wait.
//
// # Fencing tokens
//
// A holder may be paused after its last look at Done, and write when it resumes, even if others
// have held the lock since. Only the store can prevent that. Send it the hold's token ([Token] in
// Do, else [Hold.Token]) with every access, also with reads that a write depends on, and let it
// refuse a token smaller than the largest it has seen.
//
// Tokens grow, though not by one. They follow the server's clock, so they grow even after Redis has
// lost its data or another server has taken over, unless the new clock is behind. Redis remembers
// the last token for a minute after its lease. If the clock is set back later than that, by more
// than the time since the acquisition, the next token is smaller: adjust clocks gradually (slew
// them). Tokens are positive, and below 2^53 until the year 2248. Readers of an [RWMutex] have no
// token; each member of a [Group] has its own.
//
// A [Redlock] has tokens too; Martin Kleppmann criticized the original algorithm for having none.
// They grow whichever majority grants the lock, even if the servers' clocks differ. His other point
// holds for every lock with a lease, and so for this one: the store must refuse a smaller token.
//
// # What is guaranteed
//
// As long as Redis keeps its data:
//
//   - Exclusion. At most one hold of a lock is valid at a time (but for readers, and the n permits
//     of a Semaphore), even if processes pause, crash, or lose the network.
//   - A loss is reported by the local deadline, even if Redis or the network hangs.
//   - Nothing stays behind. What a failed Lock may have been granted is released in the background.
//     What cannot be released, or was held by a dead process, is free within a lease (among
//     readers, the longest lease of those that read together).
//   - An Unlock never releases someone else's hold. A [Hold] ends only itself, an owner only its
//     own. Goroutines that use one lock value without an owner share its holds, as with a
//     [sync.Mutex].
//   - No waiter sleeps for ever.
//   - A request that is sent twice, because its reply was lost, has the outcome of one sent once.
//   - Within 50 ms of Lock returning, the hold has its full lease in Redis, even if another
//     process's Unlock first granted it for a shorter time. A hold passed on by a goroutine of the
//     session, or a reader that joins others, has at least half of it.
//   - A session's goroutines and connections do not grow with the number of locks, holds or
//     waiters.
//
// # What is not promised
//
//   - That a holder has stopped when its hold has ended. Check tokens, write to the same Redis with
//     [Hold.Eval], or watch Done where the harm is small.
//   - That a lock survives loss of data in Redis. A failover loses a hold that the replica had not
//     received; [WithReplicas] narrows that window. A server that restarts without its latest data
//     or evicts keys loses holds as well: set maxmemory-policy to noeviction.
//   - Exclusion when the server's clock jumps ahead: leases then end early. Clients' clocks are
//     never compared with it, but their rates may differ from its rate by at most 0.2 %.
//   - Detection of a suspend outside Linux: there, a process considers its holds valid for as much
//     longer as its machine was suspended.
//   - Strict order between processes, except from a [FairMutex] or a [Semaphore].
//
// # Owners and re-entry
//
// Goroutines have no identity in Go, so the context says who locks. Under an ordinary context each
// acquisition stands alone, and a lock value behaves as a [sync.Mutex] or [sync.RWMutex] does; see
// [Locker].
//
// [Session.NewContext] puts an owner into a context. Goroutines that share the owner do not exclude
// each other. The owner may lock again what it holds: that only increments a count, and the last
// Unlock releases the lock. Use it where parts of a unit of work lock the same thing without
// knowing of each other:
//
//	ctx = session.NewContext(ctx)
//	err := relock.Do(ctx, session.Mutex("account:7"), func(ctx context.Context) error {
//		return book(ctx, 7) // which locks account:7 too
//	})
//
// After a loss the owner gets [ErrLost] from Lock and TryLock on that lock (for an [RWMutex], on
// either side) until it has unlocked. A hold that is renewed lasts until its Unlock, or until
// Close, even if the [Hold] or lock value has become garbage.
//
// # Handing a lock to another process
//
// [Hold.Handoff] ends a hold without unlocking, and returns a ticket. The process that presents it
// in time gets the lock ([Session.Adopt]), which is never free in between. A ticket is a secret.
//
// # Waiting and fairness
//
// A caller that finds the lock taken queues in Redis and waits for a message. Unlock grants the
// lock to the first waiter whose session is subscribed, with a provisional lease of at most 5 s.
// The winner extends that to its own lease 20 ms later, unless it has unlocked by then. Waiters
// also poll every few seconds. A waiter that was passed over because its session was not subscribed
// later returns to its position in the queue.
//
// While Redis does not answer, a waiting Lock keeps trying. If its context ends then, the error is
// also [ErrUnavailable], and not [ErrTaken]: nobody knows whether another caller has the lock.
//
// # The end of a process
//
// [Session.Shutdown] grants nothing new and waits until all holds have ended, as http.Server's
// Shutdown does for requests. [Session.Close] ends them.
//
// # Names and keys
//
// A lock's name is its key in Redis. Give the session a prefix that nothing else uses
// ([WithPrefix]), unless Redisson shares the locks. relock never changes a key that is not a lock:
// calls return [ErrNotLock]. Fields of your own in a lock are not kept, and calls may return
// ErrNotLock while they are there.
//
// A lock job:1 has more keys and channels, with {job:1} in their names (docs/operating.md lists
// them): a hash tag, which keeps them in one slot of a cluster. A name that contains a brace must
// have a hash tag of its own. So "a" and "{a}" are two locks, which share tokens and channels as in
// Redisson, and do not exclude each other.
//
// SECURITY.md says what another user of the same Redis can do.
//
// # Redisson
//
// A Mutex has the format of Redisson's RLock (3.x and 4.x), an RWMutex that of RReadWriteLock:
// locks of one name exclude each other, and take turns. A FairMutex excludes a Mutex and an RLock,
// but its queue is its own. Do not use one name for a read-write lock and another kind, or for a
// Semaphore and another kind, and do not compare tokens with those of an RFencedLock.
// docs/from-redisson.md says more.
package relock
