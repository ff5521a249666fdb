// Package relock provides distributed locks on Redis: mutual exclusion between processes, and
// between the goroutines of each. A lock is held under a lease, which is renewed while its process
// lives. Its holder is told if the lock is lost, and every hold has a fencing token. Go and Java
// services can share locks: the wire format is Redisson's.
//
//	// client is a rueidis.Client, for a single server, Sentinel or a cluster.
//	session, err := relock.NewSession(ctx, client, relock.WithPrefix("lock:")) // one per process
//	if err != nil {
//		return err
//	}
//	defer session.Close(context.Background()) // waits a few seconds at most
//
//	err = relock.Do(ctx, session.Mutex("goods:1000:1"), func(ctx context.Context) error {
//		// ctx is cancelled when the lock is lost. The store refuses old tokens.
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
// A [Session] connects a process to Redis and makes its locks: a [Mutex], a [FairMutex], an
// [RWMutex], or a [Semaphore], which has up to n holders. A [Group] locks several at once; a
// [Redlock] spans several independent deployments of Redis. [Do] is the usual way to use any of
// them. Acquire returns a [Hold], for work that is not one function, even in another process
// ([Hold.Handoff]). Lock and Unlock work like those of a [sync.Mutex]. [Session.Shutdown] waits
// until all holds have ended; [Session.Close] ends them.
//
// Below, a lock value is what [Session.Mutex] and the like return, and a hold is one acquisition of
// a lock, from Acquire or Lock to its Unlock or loss.
//
// # When not to use it
//
// Often something else is better: a transaction, a unique constraint, an idempotency key, a queue
// with acknowledgements, one Redis command, or, in one process, a [sync.Mutex]. docs/which-lock.md
// helps to choose.
//
// # Leases and loss
//
// A dead process cannot unlock. So Redis keeps a hold only for its lease, 30 seconds by default
// ([WithLease]), and the session renews it every third of that. [WithFixedLease] sets a lease that
// is not renewed, [WithMaxHold] ends a hold whose work may hang, and [WithMinHold] keeps the lock
// taken for a minimum time, even after Unlock.
//
// A holder knows by its own clock how long its hold is valid, even while Redis does not answer: for
// one lease, less a margin for clock drift, from when the last successful acquisition or renewal
// was sent. The hold is lost at this local deadline, or earlier if a renewal finds it gone, or
// [Session.ForceUnlock] or [Session.Close] ends it. The holder hears of it in three ways:
//
//   - Done's channel is closed, and Err returns [ErrLost].
//   - The context of [Do]'s function, or of [Hold.Context], is cancelled, with ErrLost as its
//     cause.
//   - Unlock and Do return ErrLost.
//
// After a loss, stop, and unlock as usual.
//
// Lock's context bounds the wait, not the hold. Do's bounds the work too; [WithWait] bounds only
// the wait.
//
// # Fencing tokens
//
// A holder may be paused after its last look at Done, and write when it resumes, even if others
// have held the lock since. Only the store can prevent that. Send it the hold's token ([Token] in
// Do, else [Hold.Token]) with every access, also with reads that a write depends on, and let it
// refuse a token smaller than the largest it has seen.
//
// Tokens grow, though not by one. They follow the server's clock, so they grow even after a
// failover or a loss of data, unless the new clock is behind. Redis remembers a lock's last token
// until a minute after the lease of the hold that got it. Once it is forgotten, the next token is
// smaller if the server's clock has been set back to before that acquisition: adjust clocks
// gradually. The tokens of a [Redlock] grow whichever majority grants it, even if the servers'
// clocks differ. Tokens are positive, and below 2^53 until the year 2248. Readers of an [RWMutex]
// have none; each member of a [Group] has its own.
//
// # What is guaranteed
//
// As long as Redis keeps its data:
//
//   - Exclusion. At most one hold of a lock is valid at a time (but for readers, and the n
//     permits of a Semaphore), even if processes pause, crash, or lose the network.
//   - A loss is reported by the local deadline, even if Redis or the network hangs.
//   - Nothing stays behind. If a Lock fails although Redis may have granted it, the lock is
//     released in the background. If that is impossible, or the process has died, it is free
//     within a lease (of several readers, the longest of theirs).
//   - An Unlock never releases someone else's hold ([Locker] says whose it ends).
//   - No waiter sleeps for ever.
//   - A request that is sent twice, because its reply was lost, has the outcome of one sent once.
//   - At most 50 ms after Lock returns, the key in Redis has the whole lease to live; after a
//     hand-off within the session, or if a reader joins others, at least half of it.
//   - The goroutines and connections of a session do not grow with its locks, holds or waiters.
//
// # What is not promised
//
//   - That a holder has stopped when its hold has ended. Check tokens, write to the same Redis
//     with [Hold.Eval], or watch Done where the harm is small.
//   - That a lock survives loss of data in Redis: a failover to a replica that had not received
//     it ([WithReplicas] makes that rarer), a restart without the latest data, or an eviction
//     (set maxmemory-policy to noeviction).
//   - Exclusion when the server's clock jumps ahead: leases then end early. Clients' clocks are
//     never compared with it, but may run at most 0.2 % faster or slower than it.
//   - That a machine notices its own suspension, except on Linux: elsewhere the local deadline is
//     late by the time for which it slept.
//   - Strict order between processes, except from a [FairMutex] or a [Semaphore].
//
// # Owners and re-entry
//
// Goroutines have no identity in Go, so the context says who locks. [Session.NewContext] puts an
// owner into it: a unit of work, such as a request. Goroutines that share the owner do not exclude
// each other. The owner may lock again what it holds; the last Unlock releases the lock. Use it
// where parts of a unit of work lock the same thing without knowing of each other:
//
//	ctx = session.NewContext(ctx)
//	err := relock.Do(ctx, session.Mutex("account:7"), func(ctx context.Context) error {
//		return book(ctx, 7) // which locks account:7 too
//	})
//
// A hold that is renewed lasts until Unlock or Close, even if its [Hold] or lock value is garbage.
//
// # Waiting and fairness
//
// A caller that finds the lock taken queues in Redis and waits for a message. Unlock grants the
// lock to the first waiter whose session is subscribed, with a provisional lease of at most 5 s
// until the winner renews it. A waiter that is not subscribed is passed over, but keeps its
// position.
//
// # Names and keys
//
// A lock's name is its key in Redis. Give the session a prefix that nothing else uses
// ([WithPrefix]), unless Redisson shares the locks. relock never changes a key that is not a lock:
// calls return [ErrNotLock]. Do not add fields to a lock's hash: they may be removed, or make calls
// return ErrNotLock.
//
// A lock job:1 has more keys and channels, with the hash tag {job:1} in their names, so that a
// cluster has them in one slot (docs/operating.md lists them). A name with a brace must contain a
// whole hash tag, such as job:{1}, which its other keys have instead. So the locks "a" and "{a}" do
// not exclude each other, but share tokens and channels, as in Redisson.
//
// SECURITY.md says what another user of the same Redis can do.
//
// # Redisson
//
// A [Mutex] and Redisson's RLock (3.x and 4.x) of one name exclude each other, and both get their
// turns; so do an [RWMutex] and an RReadWriteLock. A [FairMutex] excludes an RLock, but its queue
// is its own. Do not use one name for a read-write lock, or a [Semaphore], and another kind, and do
// not compare tokens with those of an RFencedLock. See docs/from-redisson.md.
package relock
