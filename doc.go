// Package relock provides distributed locks on Redis: mutual exclusion between
// processes, and between the goroutines of each. A lock is held under a lease that is
// renewed while its process lives; its holder is notified of its loss; and every hold
// has a fencing token. The wire format is Redisson's, so Go and Java services can share
// locks.
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
// A session makes locks of three kinds: [Mutex], [FairMutex], acquired in FIFO order, and
// [RWMutex] for readers and writers. A [Group] locks several at once, and a [Redlock] is a
// lock over several independent deployments of Redis. [Do] is the usual way to use any of
// them; it is built on Lock, Unlock, Done and Err, methods of a [Locker]. [SyncLocker]
// adapts a lock to sync.Locker, an [Observer] feeds metrics, traces and logs, and
// [Session.Inspect] and [Session.ForceUnlock] are for operators.
//
// # When not to use it
//
// A lock makes others wait, and a lease protects only a holder that acts in time. Often
// there is something better:
//
//   - If all that changes is in one database, use its transactions, SELECT … FOR
//     UPDATE, or a unique constraint. The database enforces them when it commits, even
//     against a process that was paused for an hour.
//   - If something must not take effect twice, such as a payment or a mail, give each
//     request an idempotency key, and let the receiver refuse a key it knows.
//   - If each piece of work must go to one worker, use a queue with acknowledgements,
//     such as a Redis stream with a consumer group.
//   - If one Redis command or one script makes the whole change, as DECR does, it
//     needs no lock: Redis runs one at a time.
//   - If there is only one process, use [sync.Mutex].
//
// What remains is work in several steps on things that share no transaction: files,
// devices, other services, caches that are expensive to fill. If two processes at once
// would only waste effort, a lock is enough. If they would do damage, let what they
// change check fencing tokens as well.
//
// # Words
//
//   - A session ([Session]) is a process's part in the locks of one Redis deployment.
//     It has an identity, renews leases, and listens for unlock messages.
//   - An owner is who holds a lock: a unit of work such as a request, whose contexts carry
//     it, or else the handle through which it was locked.
//   - A hold is one owner's possession of one lock, from Lock to Unlock or loss.
//   - A handle is what a program has of a lock: the *Mutex that [Session.Mutex] returns, or
//     another [Locker]. Any number of handles may be the same lock.
//   - A lease is a hold's time to live in Redis, which removes the hold when it ends.
//   - The watchdog renews leases, each when a third of it has passed.
//   - The local deadline of a hold is the time until which the hold is certain.
//   - A fencing token is a number that grows from each hold of a lock to the next.
//   - A tenure is the span in which a process may pass a lock among its own goroutines
//     without asking Redis.
//
// # Leases and loss
//
// A process that has died cannot unlock. Therefore Redis keeps a hold only for the
// length of its lease, 30 seconds unless [WithLease] says otherwise, and the watchdog
// renews it. When a holder dies, its lock is free at the end of the lease.
// [WithFixedLease] gives a lock a lease that is not renewed; [WithMaxHold] bounds how long
// a holder that may be stuck keeps it.
//
// While Redis does not answer, a holder cannot know whether it still has the lock. But
// it knows how long it has it for certain: the lease began no earlier than the last
// successful acquisition or renewal was sent. That time plus the lease, less a margin
// for clocks that run at different rates, is the local deadline. Each renewal that
// succeeds moves it. When it passes, the hold is lost, whatever Redis may say later.
//
// A hold is lost at once when a renewal finds it gone from Redis, when somebody calls
// [Session.ForceUnlock], and when the session is closed. The holder is notified in three
// ways:
//
//   - Done's channel is closed, and Err returns [ErrLost];
//   - the context that [Do] gives to its function is cancelled, with ErrLost as cause;
//   - Unlock, and so Do, returns ErrLost.
//
// On loss stop, and unlock as usual. Work that was under way is in the state that a
// crash would have left: check it, or repeat what may be repeated.
//
// The context given to Lock bounds the wait for the lock, not the hold.
//
// # Fencing tokens
//
// A lease cannot stop a paused process. If a holder is paused between its last check of
// Done and its write, by a scheduler, a full disk, or a migration of its virtual machine,
// it writes when it resumes, even if others have held the lock since. Nothing on the
// holder's side can prevent that. The store can: send it the token of the hold ([Token] in
// Do, else [Mutex.FencingToken]) with every access, including reads that writes depend on,
// and let it refuse a token smaller than the largest it has seen. A store that cannot refuse
// may at least keep the token, which tells later which of two writes came too late.
//
// Tokens grow, though not by one. They are based on the server's clock, so they also grow
// when Redis has lost its data or another server has taken over, unless the new clock is
// behind the old one. Redis keeps the last token for a minute after an acquisition, and
// until then its clock may even step back. After that, a lock's next token is smaller
// than its last one if the clock has stepped back by more than the time since: so let the
// server's clock be slewed, not set. Tokens are positive, and stay below 2^53, where a
// float64 is exact, until the year 2248. Readers of an RWMutex and a Redlock have no
// token; each member of a Group has its own.
//
// # What is guaranteed
//
// As long as Redis keeps its data:
//
//   - Exclusion. No two holds of a lock are certain at the same time, other than two
//     readers', whichever processes pause, crash, or lose the network.
//   - Loss is reported. Done is closed by the local deadline, even if Redis or the
//     network hangs.
//   - Nothing stays behind. What a cancelled or failed Lock may have been granted is
//     released in the background. What cannot be released, and whatever a dead
//     process held, is free within a lease.
//   - Nobody ends another owner's hold by an Unlock under an owner's context, through
//     another handle, or after a loss. What an Unlock without an owner ends is said below.
//   - No waiter sleeps for ever. Messages wake it early; a timer wakes it in any case.
//   - A lost reply does no harm. A request that is sent again has the same outcome as
//     one sent once, so a lock is never acquired or released twice.
//   - Later holds have larger tokens.
//   - A hold is a hold. 50 milliseconds after Lock has returned it has its whole lease in Redis,
//     also if another's Unlock has handed it over, and survives the same outages.
//   - A session's goroutines and connections do not grow with the number of locks,
//     holds or waiters.
//
// # What is not promised
//
//   - That a holder has stopped when its hold has ended. It may be paused and go on
//     later: check tokens, or watch Done where the harm is small.
//   - That a lock survives loss of data in Redis. Replication is asynchronous: when a
//     primary fails, a hold that its replica had not received is lost, and the lock may
//     be granted again. [WithReplicas] narrows that window and does not close it. A
//     server that restarts without its latest data has lost holds as well, and so has
//     one that evicts keys: set maxmemory-policy to noeviction. Tokens grow all the
//     same, so a store that checks them stays safe. A Redlock is lost only when a
//     majority of its servers lose it.
//   - Exclusion when the server's clock jumps ahead. Redis counts leases by its wall
//     clock. When that steps forward, they end early; when it steps back, they only
//     last longer. Clients' clocks are never compared with it; their rates are assumed
//     to differ from its rate by at most 0.2 %.
//   - Detection of a suspend outside Linux. There, a machine that was suspended while
//     it held a lock believes in the hold for that much longer.
//   - Strict order between processes, except from a FairMutex.
//
// # Owners and re-entry
//
// Goroutines have no identity in Go; the context says who locks.
//
// Under an ordinary context the owner is the handle, which behaves as a sync.Mutex or a
// sync.RWMutex does: goroutines that use it exclude each other, and locking it twice in a row
// blocks. (Inside [Do], whose context knows the hold, that fails with [ErrDeadlock] instead.)
// Unlock ends what was last taken through the handle, by whatever owner, so a deferred
// Unlock(context.Background()) works. Readers through one handle share one hold, which counts
// them; if its lease is fixed, each of them has the lease set anew, so none is cut short.
//
// Goroutines that share a handle share its fate: after a loss the first Unlock returns ErrLost, and until
// then a Lock through the handle waits, and TryLock returns ErrLost. Whoever needs to know of his own hold
// alone uses Do, which makes an owner for its call, or a handle of his own. Handles cost little, and those
// of one session, kind and name are one lock.
//
// [Session.NewContext] puts an owner into a context, and every Lock under that context
// or one derived from it belongs to that owner. An owner may lock again what it holds;
// that only increments a counter in memory, and the last Unlock releases. Give one to a
// unit of work whose parts lock the same thing without knowing of each other:
//
//	ctx = session.NewContext(ctx)
//	err := relock.Do(ctx, session.Mutex("account:7"), func(ctx context.Context) error {
//		return book(ctx, 7) // which locks account:7 too
//	})
//
// Goroutines that share such a context are one owner, and do not exclude each other.
//
// An owner whose hold was lost gets ErrLost from Lock and TryLock of that lock, of either
// side of an RWMutex, until it has unlocked: no call inside the section that the loss has
// broken gets a hold of its own, as if nothing had happened.
//
// The owner of a write hold of an RWMutex may take the read side too, and keep it when it
// unlocks the write side. The other way round fails with [ErrUpgrade].
//
// Unlock even after a loss. A handle that is garbage leaves nothing of holds that have expired, but one
// that is renewed is held until its Unlock, or until Close: its section may still run.
//
// # Waiting and fairness
//
// Whoever finds a Mutex or FairMutex taken queues in Redis, with the same request, and then
// waits for a message: Unlock grants the lock to the first of the queue. That costs the same
// however many wait. The winner has it for a claim, 5 seconds or its lease if that is shorter,
// and its whole lease 20 milliseconds later. A waiter looks at the lock every few seconds as well, so that a message
// that is lost, or a holder that dies, delays it and no more.
//
// For each Mutex one goroutine of a session queues in Redis, and the others behind it in the
// process, in FIFO order. Unlock passes a Mutex to the next goroutine of the same session
// without a round trip, until the tenure ends: 10 milliseconds after Redis granted the lock,
// unless [WithTenure] says otherwise. Then the process queues again, behind those that wait
// elsewhere. So processes take turns, and none starves, but their order is not strictly the
// order of arrival. In a FairMutex it is: there each call queues in Redis.
//
// In an RWMutex readers and writers take turns, so neither side starves: a waiting writer stops
// new readers, and all readers that wait go before the next writer. The readers of a session
// share one hold in Redis.
//
// Lock waits out lost connections, restarts and failovers, until its context ends. Errors
// that last until somebody acts, such as NOPERM and [ErrNotLock], end it at once.
//
// # Names and keys
//
// The name of a lock is a key in Redis, a hash. An application's data may be at the same key,
// or a lock of another library. So give the session a prefix that nothing else has:
// [WithPrefix]. Leave it out where Redisson shares the locks.
//
// A key that holds something else than a lock of relock or Redisson is never changed or
// deleted, also not by [Session.ForceUnlock]: every call returns [ErrNotLock], and so does a
// Lock that waits and finds such a key. A Redlock counts a deployment with such a key like one
// that is down. A hash is a lock if it has the hold id of a holder. If an application writes
// fields of its own into it, the hold goes on as before, and ends as before; Unlock and
// ForceUnlock remove what is the lock's and leave these fields. But they expire with the lease,
// as the key does, and until then the name is no lock.
//
// # Other users of the same Redis
//
// A Redis user with rights for the names of other locks only can send messages to any session,
// since their channels are beside those of all locks. A session believes no such message for its
// channel: a grant or a loss must name a hold by its id, a random number of 62 bits, which
// such a user cannot read. Anything else makes the session look for itself at most. So that user
// cannot acquire, end or open these locks, nor learn who holds them, but he can make a session
// work. Whoever may write the keys of a lock can do anything to it.
//
// # Redisson
//
// A Mutex is stored in Redis like an RLock of Redisson (3.x and 4.x), and an RWMutex like
// an RReadWriteLock: the same hash, form of hold id, time to live, channel and message. So
// those of one name exclude each other, and wake each other on release. A FairMutex has
// the hash of a Mutex, and so excludes both; its queue is its own. Redisson's fair and
// spin locks exclude a Mutex as well, but neither always hears of the other's release, and
// then waits for its timer. Do not use one name for a read-write lock and another kind.
//
// Re-entry is counted in the process, so the count in Redis is always 1. Tokens are not
// comparable with those of Redisson's RFencedLock.
//
// For a lock goods:1000:1 these keys may be in Redis, the first two in Redisson's format:
//
//	goods:1000:1                                 hash, the lock
//	{goods:1000:1}:<hold id>:rwlock_timeout:1    lease of a reader
//	{goods:1000:1}:others:rwlock_timeout:1       lease of Redisson's readers that have no key of their own
//	relock_fence:{goods:1000:1}                  last fencing token, for a minute after it was issued
//	relock_queue:{goods:1000:1}                  sorted set, who waits for a Mutex or FairMutex
//	relock_rwqueue:{goods:1000:1}                sorted set, the waiting readers and writers of an RWMutex
//	relock_seen:{goods:1000:1}                   sorted set, when the sessions that wait have looked; for 5 s
//	relock_readers:{goods:1000:1}                sorted set, relock's readers of an RWMutex
//	relock_session:{<session id>}                label of a session; see WithLabel
//	relock_yield:{goods:1000:1}                  turns left to Redisson; for 2 s after it was met
//
// and these channels are used:
//
//	redisson_lock__channel:{goods:1000:1}        releases (Redisson's)
//	redisson_rwlock:{goods:1000:1}               releases of an RWMutex (Redisson's)
//	relock_grant:{goods:1000:1}:<session id>     the lock granted to a session, in a cluster with sharded pub/sub
//	relock_session:<session id>                  messages to a session: grants, and losses by ForceUnlock
//
// The braces are a hash tag, which keeps the keys in one slot of a cluster. A name that
// contains a brace gets none added, and needs a hash tag of its own; its queue has a colon
// more at the end. So the names a and {a} are two locks, which share tokens and channels, as in
// Redisson, and nothing that one could take from the other. In a cluster with
// sharded pub/sub, releases and grants are published there, as Redisson does.
//
// # Sources
//
// The wire format is documented by Redisson's public repository,
// https://github.com/redisson/redisson. Passing a lock within a process before others
// get it is lock cohorting: Dice, Marathe and Shavit, "Lock Cohorting: A General
// Technique for Designing NUMA Locks" (PPoPP 2012). Locks with leases, and Redlock, are
// described in the Redis documentation, "Distributed Locks with Redis"; what a lease
// cannot do, and fencing tokens can, in Martin Kleppmann's "How to do distributed
// locking" (2016).
package relock
