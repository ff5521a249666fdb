// Package relock provides distributed locks on Redis: mutual exclusion between processes, and
// between their goroutines. A lock is held under a lease, which is renewed while the holder's
// process lives. The holder is told if the lock is lost. Each holder, except readers, gets a
// fencing token: a number by which a data store can refuse past holders. Go and Java services can
// share locks: keys and pub/sub are Redisson's.
//
//	// client is a rueidis.Client, for a single server, Sentinel or a cluster.
//	session, err := relock.NewSession(ctx, client, relock.WithPrefix("lock:")) // one per process
//	if err != nil {
//		return err
//	}
//	defer session.Close(context.Background()) // blocks a few seconds at most
//
//	err = relock.Do(ctx, session.Mutex("goods:1000:1"), func(ctx context.Context) error {
//		// ctx is cancelled when the lock is lost. Your store refuses tokens of earlier holders.
//		token := relock.Token(ctx)
//		stock, err := store.Stock(ctx, token)
//		if err != nil || stock == 0 {
//			return err
//		}
//		return store.SetStock(ctx, stock-1, token)
//	})
//	if errors.Is(err, relock.ErrLost) {
//		// The stock may or may not have been written: find out before you try again.
//	}
//
// A [Session] connects a process to Redis and makes its locks: a [Mutex], a [FairMutex], an
// [RWMutex], or a [Semaphore], with up to n holders. A [Group] locks several at once; a [Redlock]
// spans independent deployments of Redis. [Do] is the usual way to lock. For work that is not one
// function, Acquire returns a [Hold]; [Hold.Handoff] passes its lock to another process. Lock and
// Unlock work like those of a [sync.Mutex], but take a context and return errors.
//
// A lock value is the result of [Session.Mutex] and the like. A hold is one acquisition of a lock,
// from Acquire or Lock to its Unlock or loss. [Session.Shutdown] waits until all holds end;
// [Session.Close] ends them.
//
// # When not to use it
//
// Often something else is better: a transaction, a unique constraint, an idempotency key, a queue
// with acknowledgements, one Redis command, or, in one process, a [sync.Mutex]. See
// docs/which-lock.md.
//
// # Leases and loss
//
// A dead process cannot unlock. So Redis keeps a hold only for its lease, 30 seconds by default
// ([WithLease]). The session renews it every third of that until Unlock, even if the [Hold] or lock
// value is garbage-collected. [WithFixedLease] sets a lease that is not renewed, [WithMaxHold] ends
// a hold whose work may hang, and [WithMinHold] keeps the lock taken for a minimum time, even after
// Unlock.
//
// Each hold has a local deadline by its process's clock: when it sent its last successful
// acquisition or renewal, plus one lease, less a margin for clock drift. The hold is lost then, or
// earlier: if a renewal finds it gone from Redis, or by [Session.ForceUnlock] or [Session.Close].
// The holder hears of a loss in three ways:
//
//   - The Done channel of its [Hold] or lock value is closed, and Err returns [ErrLost].
//   - The context of [Do]'s function, or of [Hold.Context], is cancelled, with ErrLost as its
//     cause.
//   - Unlock and Do return ErrLost.
//
// After a loss, stop the work, but still call Unlock.
//
// The context of Lock or Acquire limits only the wait, like [WithWait]; that of Do limits the work
// too.
//
// # Fencing tokens
//
// A holder may pause after its last look at Done, and write later, although others have held the
// lock since. Only the data store can prevent that. Send it the hold's token ([Token] in Do, else
// [Hold.Token]) with every access, and let it refuse a token smaller than the largest it has seen.
// Send it with reads too: once the next holder has read, the store refuses late writes.
//
// Tokens follow the server's clock, so they grow even after a failover or a loss of data, though
// not by one. Redis also remembers a lock's last token, until a minute after the lease ends. If
// that record is lost, and the clock of the server (or of its successor) is behind the time of the
// last acquisition, the next token is smaller: never step clocks. A [Redlock]'s tokens grow even if
// other servers, with other clocks, grant the lock the next time. Tokens are positive, and below
// 2^53 until the year 2248. Readers have none; each member of a [Group] has its own.
//
// # What is guaranteed
//
// While Redis keeps its data:
//
//   - Exclusion. At any time, at most one hold of a lock (n of a Semaphore, any number of readers)
//     is not lost and before its local deadline, even if processes pause, crash, or lose the
//     network.
//   - A loss is reported at the local deadline at the latest, even if Redis or the network hangs.
//   - Nothing stays behind. If Lock fails although Redis may have granted the lock, the session
//     releases it in the background. If that fails, or the process has died, the lock is free
//     within a lease (of several readers, the longest lease).
//   - [Hold.Unlock] ends only its hold; Unlock of a lock value, only one of its session's holds
//     ([Locker] says which).
//   - No waiter sleeps for ever, even if a message is lost.
//   - A request that is sent again after a lost reply neither acquires nor releases twice.
//   - Within 50 ms of Lock's return, the key's time to live in Redis is set to a whole lease. It
//     may be as low as half of that if another goroutine of the session has passed the lock on
//     ([WithTenure]), or a reader joins others.
//   - The goroutines and connections of a session do not grow with its locks, holds or waiters.
//
// # What is not promised
//
//   - That a holder has stopped when its hold ends. Check tokens, or write to the same Redis with
//     [Hold.Eval]. Where overlap does little harm, watch Done.
//   - That a lock survives loss of data in Redis: a failover to a replica without it (rarer with
//     [WithReplicas]), a restart without the latest data, or an eviction (set maxmemory-policy
//     noeviction).
//   - Exclusion when the server's clock jumps ahead (leases then end early), or its speed is more
//     than 0.2 % off a client's. A constant difference does no harm.
//   - That a machine notices its own suspension, except on Linux: elsewhere the local deadline is
//     late by the length of the sleep.
//   - First come, first served between processes, except from a [FairMutex] or a [Semaphore].
//
// # Owners and re-entry
//
// Goroutines have no identity, so the context says who locks. [Session.NewContext] puts an owner
// into it: a unit of work, such as a request. The owner may lock again a lock that it holds; the
// last Unlock releases the lock. So goroutines that share the owner do not exclude each other.
// Without one, a second Lock in a goroutine waits; inside Do it returns [ErrDeadlock]. Use an owner
// where a function and its callee may lock the same lock:
//
//	ctx = session.NewContext(ctx)
//	err := relock.Do(ctx, session.Mutex("account:7"), func(ctx context.Context) error {
//		return book(ctx, 7) // which locks account:7 too
//	})
//
// # Waiting and fairness
//
// A waiter queues in Redis, and its session subscribes to a channel. Unlock grants the lock to the
// first waiter whose session is subscribed. Others are skipped, and get their old place when they
// queue again. The new holder's lease is at most 5 s at first; its session soon renews it to full
// length.
//
// # Names and keys
//
// A lock's name is its key in Redis. Give the session a prefix that nothing else uses
// ([WithPrefix]), unless Redisson shares the locks. relock never changes a key that is not a lock:
// calls return [ErrNotLock]. Do not add fields to the hash at a lock's key: they may be removed, or
// cause this error.
//
// A lock has more keys and channels (docs/operating.md). Those of a lock named job:1 contain the
// hash tag {job:1}, so a cluster keeps them in one slot. A name with a brace must contain a
// non-empty hash tag, and the keys use that: {1} for job:{1}. The locks "a" and "{a}" have the same
// tag, so they share their last token and channels, as in Redisson, but do not exclude each other.
//
// SECURITY.md says what another user of the same Redis can do.
//
// # Redisson
//
// A [Mutex] and Redisson's RLock (3.x and 4.x) of one name exclude each other, and both sides get
// turns; likewise an [RWMutex] and an RReadWriteLock. A [FairMutex] excludes an RLock, but does not
// queue with it. Give read-write locks, [Semaphore]s and other locks different names. Never compare
// tokens with those of an RFencedLock. See docs/from-redisson.md.
package relock
