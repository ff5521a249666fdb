// Package relock provides distributed locks on Redis: mutual exclusion between processes, and
// between the goroutines of each. A lock is held under a lease, which is renewed while its
// process lives. Its holder hears when it is lost, and every hold has a fencing token. The wire
// format is Redisson's, so Go and Java services can share locks.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	session, err := relock.NewSession(ctx, client, relock.WithPrefix("lock:")) // one per process
//	if err != nil {
//		return err
//	}
//	defer func() {
//		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
//		defer cancel()
//		session.Close(ctx)
//	}()
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
// A session makes a [Mutex], a [FairMutex] or an [RWMutex]. A [Group] locks several at once; a
// [Redlock] is a lock over several independent deployments of Redis. [Do] is the usual way to use
// any of them.
//
// # When not to use it
//
// Often something else is better than a lock: transactions or a unique constraint, if all that
// changes is in one database; an idempotency key, if a request must not take effect twice; a queue
// with acknowledgements, if each piece of work must go to one worker; one Redis command, if that is
// the whole change; [sync.Mutex], if there is one process. If two processes at once do damage, let
// what they change check fencing tokens as well.
//
// # Words
//
// An owner is who holds a lock: a unit of work such as a request, whose contexts carry it, or else
// the handle through which it was locked. A handle is what [Session.Mutex] and its like return; any
// number of handles may be the same lock. A hold is one owner's possession of one lock, from Lock to
// Unlock or loss. A lease is its time to live in Redis. A tenure is the budget for passing a lock on
// within the process, without asking Redis.
//
// # Leases and loss
//
// A process that has died cannot unlock. So Redis keeps a hold only for its lease, 30 seconds
// unless [WithLease] says otherwise, and the watchdog renews it when a third has passed. When a
// holder dies, its lock is free at the end of the lease. [WithFixedLease] gives a lock a lease that
// is not renewed; [WithMaxHold] bounds how long a holder that may be stuck keeps it.
//
// While Redis does not answer, a holder still knows how long it has the lock for certain: for
// the lease, counted from when the last successful acquisition or renewal was sent, less a margin
// for clocks that run at different rates. When that local deadline passes, the hold is lost. It is
// lost at once when a renewal finds it gone, when somebody calls [Session.ForceUnlock], and when
// the session is closed. The holder hears of it in three ways: Done's channel is closed, and Err
// returns [ErrLost]; the context that [Do] gives to its function is cancelled, with ErrLost as
// cause; Unlock, and so Do, returns ErrLost. On loss stop, and unlock as usual. Work that was under
// way is in the state that a crash would have left.
//
// The context given to Lock bounds the wait for the lock, not the hold.
//
// # Fencing tokens
//
// If a holder is paused between its last check of Done and its write, it writes when it resumes,
// even if others have held the lock since. Only the store can prevent that: send it the token of
// the hold ([Token] in Do, else [Mutex.FencingToken]) with every access, including reads that
// writes depend on, and let it refuse a token smaller than the largest it has seen.
//
// Tokens grow, though not by one. They follow the server's clock, so they also grow when Redis has
// lost its data or another server has taken over, unless the new clock is behind the old one. The
// clock may step back within a minute of an acquisition; a step later by more than the time since
// would make the next token smaller: let it be slewed, not set. Tokens are positive, and below 2^53
// until the year 2248. Readers of an RWMutex and a Redlock have no token; each member of a Group
// has its own.
//
// # What is guaranteed
//
// As long as Redis keeps its data:
//
//   - Exclusion. No two holds of a lock are certain at the same time, other than two readers',
//     whichever processes pause, crash, or lose the network.
//   - Loss is reported. Done is closed by the local deadline, even if Redis or the network hangs.
//   - Nothing stays behind. What a failed Lock may have been granted is released in the background;
//     what cannot be released, and what a dead process held, is free within a lease.
//   - Nobody ends another owner's hold by an Unlock under an owner's context, through another
//     handle, or after a loss.
//   - No waiter sleeps for ever. Messages wake it early; a timer wakes it in any case.
//   - A lost reply does no harm: a request sent twice has the outcome of one sent once.
//   - Later holds have larger tokens.
//   - 50 milliseconds after Lock has returned, a hold has its whole lease in Redis, also if
//     another's Unlock has handed it over.
//   - A session's goroutines and connections do not grow with the number of locks, holds or waiters.
//
// # What is not promised
//
//   - That a holder has stopped when its hold has ended. Check tokens, or watch Done where the
//     harm is small.
//   - That a lock survives loss of data in Redis. A failover loses a hold that the replica had not
//     received; [WithReplicas] narrows that window and does not close it. A server that restarts
//     without its latest data, or evicts keys, loses holds as well: set maxmemory-policy to
//     noeviction. Tokens grow all the same.
//   - Exclusion when the server's clock jumps ahead: leases end early then. Clients' clocks are
//     never compared with it; their rates may differ from its rate by at most 0.2 %.
//   - Detection of a suspend outside Linux: a machine that was suspended believes in its holds for
//     that much longer.
//   - Strict order between processes, except from a FairMutex.
//
// # Owners and re-entry
//
// Goroutines have no identity in Go; the context says who locks. Under an ordinary context the
// owner is the handle, which behaves as a sync.Mutex or a sync.RWMutex does; see [Locker].
//
// [Session.NewContext] puts an owner into a context. An owner may lock again what it holds: that
// only counts, and the last Unlock releases. Give one to a unit of work whose parts lock the same
// thing without knowing of each other:
//
//	ctx = session.NewContext(ctx)
//	err := relock.Do(ctx, session.Mutex("account:7"), func(ctx context.Context) error {
//		return book(ctx, 7) // which locks account:7 too
//	})
//
// An owner whose hold was lost gets ErrLost from Lock and TryLock of that lock, of either side of
// an RWMutex, until it has unlocked. So unlock even after a loss. A hold that is renewed lasts until
// its Unlock, or until Close, also if its handle is garbage.
//
// # Another process goes on
//
// [Mutex.Handoff] ends a hold without unlocking, and returns a ticket: whoever presents it in time,
// in any process, has the lock ([Session.Adopt]). It is taken all the while. A ticket is a secret.
//
// # Waiting and fairness
//
// Whoever finds a lock taken queues in Redis and waits for a message: Unlock grants the lock to the
// first of the queue that is there, for a claim of at most 5 seconds, which becomes the winner's
// whole lease 20 milliseconds later. A waiter also looks at the lock every few seconds. Lock waits
// out lost connections, restarts and failovers, until its context ends. Errors that last until
// somebody acts, such as NOPERM and [ErrNotLock], end it at once.
//
// # Names and keys
//
// The name of a lock is a key in Redis, a hash. Data of an application, or a lock of another
// library, may be at the same key: give the session a prefix that nothing else has
// ([WithPrefix]), unless Redisson shares the locks. A key that holds no lock is never changed:
// every call returns [ErrNotLock]. If an application writes fields of its own into a lock, the hold
// goes on, and Unlock leaves these fields, which expire with the lease.
//
// A Redis user with rights for the names of other locks only can send messages to any session. But
// a session believes none that does not name a hold by its id, a random number, which such a user
// cannot read: he cannot acquire, end or open these locks, nor learn who holds them.
//
// # Redisson
//
// A Mutex is stored like an RLock of Redisson (3.x and 4.x), an RWMutex like an RReadWriteLock, so
// those of one name exclude each other, and wake each other on release. A FairMutex has the hash of
// a Mutex, and so excludes both; its queue is its own. Redisson's fair and spin locks exclude a
// Mutex as well, but neither always hears of the other's release, and then waits for its timer. Do
// not use one name for a read-write lock and another kind. Tokens are not comparable with those of
// Redisson's RFencedLock.
//
// For a lock job:1 these keys may be in Redis, the first two in Redisson's format:
//
//	job:1                                 the lock
//	{job:1}:<hold id>:rwlock_timeout:1    lease of a reader
//	{job:1}:others:rwlock_timeout:1       lease of Redisson's readers without a key of their own
//	relock_fence:{job:1}                  last fencing token, for a minute
//	relock_queue:{job:1}                  who waits for a Mutex or FairMutex
//	relock_rwqueue:{job:1}                who waits for an RWMutex
//	relock_seen:{job:1}                   when the sessions that wait have looked, for 5 s
//	relock_readers:{job:1}                relock's readers
//	relock_yield:{job:1}                  turns left to Redisson, for 2 s
//	relock_session:{<session id>}         label of a session ([WithLabel])
//
// and these channels are used:
//
//	redisson_lock__channel:{job:1}        releases (Redisson's)
//	redisson_rwlock:{job:1}               releases of an RWMutex (Redisson's)
//	relock_session:<session id>           messages to a session: grants, and losses by ForceUnlock
//	relock_grant:{job:1}:<session id>     grants, in a cluster with sharded pub/sub
//
// The braces are a hash tag, which keeps the keys in one slot of a cluster. A name that contains
// a brace gets none added, and needs a hash tag of its own; its queue has a colon more at the
// end. So the names a and {a} are two locks that share tokens and channels, as in Redisson, and
// nothing that one could take from the other.
//
// # Sources
//
// The wire format: https://github.com/redisson/redisson. Passing a lock on within a process: Dice,
// Marathe and Shavit, "Lock Cohorting" (PPoPP 2012). Leases and Redlock: the Redis documentation,
// "Distributed Locks with Redis". Fencing tokens: Martin Kleppmann, "How to do distributed locking"
// (2016).
package relock
