/*
 * Kept locks and their recall: a session keeps a lock after Unlock and takes it again in memory,
 * until somebody else wants it. README.md says what each step is in the code.
 *
 * Every option of a process is one atomic step. Time is a number of ticks left, in each lease and each
 * local deadline. A tick comes when nobody who is alive and runs has anything due: a request takes less than a
 * tick, or fails. What goes wrong costs a budget: LOSSES, FREEZES, CRASHES, BREAKS.
 */

#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef IDS
#define IDS 2          /* hold ids of each session: so many acquisitions from Redis */
#endif
#ifndef LOSSES
#define LOSSES 1       /* messages and replies that are lost */
#endif
#ifndef FREEZES
#define FREEZES 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef BREAKS
#define BREAKS 0       /* of a subscription */
#endif
#ifndef TRIES
#define TRIES 0        /* 1: a call may be a TryLock, which waits briefly */
#endif

#define LEASE 4
#define CLAIM 3
#define LOOK  1        /* a contender looks after so many ticks: a third of a claim */
#define COOL  2        /* after a recall a name is not kept for so long */
#define ASK   2        /* a TryLock waits for so long */
#define SILENT 3       /* ticks without a look after which a session counts as silent */

/* How many ticks a lock may stay kept while somebody waits who is alive: one look for each message that was lost,
 * and for each break of a subscription; and until the first of the queue is silent, or stops asking. */
#define GIVEUP (LOOK * (LOSSES + BREAKS + 1) + 1 + SILENT * (FREEZES + CRASHES) + ASK * TRIES)

#define ALL (SESSIONS * IDS)
#define NONE ALL
#define OF(id) ((id) / IDS)

/* ---- Redis */
byte holder = NONE, ttl;
byte queue[ALL], queued;       /* hold ids in order of arrival */
byte seen[SESSIONS];           /* relock_seen: ticks since the session looked */

/* ---- messages under way, by the hold id that they name */
bit granted[ALL], others[ALL]; /* granted <id>, and whether somebody waits behind it */
bit wanted[ALL];               /* wanted <id> */

/* ---- sessions */
mtype = {idle, asking, waiting, held, kept, leaving, cancelled};
mtype st[SESSIONS] = idle;
byte id[SESSIONS];             /* the current hold id is OF(s) * IDS + id[s] */
byte until[SESSIONS];          /* the hold is certain for so many ticks */
byte look[SESSIONS];           /* ticks until the next look */
byte cool[SESSIONS];
bit want[SESSIONS];            /* somebody waits for what is held */
bit try[SESSIONS];             /* the call is a TryLock; until[] is then what is left of its wait */
bit reply[SESSIONS];           /* Redis has answered the request under way: the answer is got[] */
bit got[SESSIONS];
bit dead[SESSIONS], frozen[SESSIONS], deaf[SESSIONS];
bit fresh[SESSIONS];           /* renewed in this tick */

byte losses = LOSSES, freezes = FREEZES, crashes = CRASHES, breaks = BREAKS;

/* ---- what is checked */
byte stale;                    /* ticks in which the lock was kept while somebody alive waited for it */
bit waskept;
byte granter[ALL];             /* how often an id was granted the lock */

#define ID(s) ((s) * IDS + id[s])
#define runs(s) (!dead[s] && !frozen[s])
#define certain(s) ((st[s] == held || st[s] == kept) && until[s] > 0 && !dead[s])

byte i, j, k; bit b;           /* for the inlines; 0 between steps */

inline find(x) { /* k: where x stands in the queue, or queued */
	k = 0;
	do
	:: k < queued && queue[k] != x -> k++
	:: else -> break
	od
}

inline remove(x) {
	find(x);
	if
	:: k < queued ->
		queued--;
		do
		:: k < queued -> queue[k] = queue[k + 1]; k++
		:: else -> break
		od;
		queue[queued] = 0
	:: else
	fi;
	k = 0
}

/* first: k is the first of the queue whose session is there and not silent, or queued */
inline first() {
	k = 0;
	do
	:: k < queued && (deaf[OF(queue[k])] || dead[OF(queue[k])] || seen[OF(queue[k])] >= SILENT) -> k++
	:: else -> break
	od
}

/* handOver gives a free lock to the first of the queue. self learns by the reply, the others by a message. */
inline handOver(self) {
	stale = 0;
	first();
	if
	:: k == queued -> holder = NONE; ttl = 0
	:: else ->
		j = queue[k];
		remove(j);
		assert(granter[j] == 0);
		granter[j]++;
		holder = j; ttl = CLAIM;
		first();
		others[j] = (k < queued);
		granted[j] = (j != self);
		j = 0
	fi;
	k = 0
}

/* tell publishes that a contender wants the lock from its holder. */
inline tell() {
	if
	:: holder != NONE && !deaf[OF(holder)] && !dead[OF(holder)] -> wanted[holder] = 1
	:: else
	fi
}

/* ---- scripts: each is one step */

inline acquire(s) {
	if
	:: holder == NONE && queued == 0 ->
		holder = ID(s); ttl = LEASE; got[s] = 1; stale = 0; granter[ID(s)]++
	:: holder == NONE && queued > 0 ->
		queue[queued] = ID(s); queued++;
		seen[s] = 0;
		handOver(ID(s));
		got[s] = (holder == ID(s));
		if :: got[s] -> ttl = LEASE :: else fi
	:: else ->
		queue[queued] = ID(s); queued++;
		seen[s] = 0;
		first();
		if :: queue[k] == ID(s) -> tell() :: else fi;
		k = 0; got[s] = 0
	fi
}

inline probe(s) { /* look.lua */
	find(ID(s)); b = (k < queued); k = 0;
	seen[s] = 0;
	if
	:: holder == NONE && b -> handOver(ID(s))
	:: else
	fi;
	if
	:: holder == ID(s) -> ttl = LEASE
	:: holder != NONE && holder != ID(s) && b ->
#if defined(BUG_HEADTELLS)
		if :: queue[0] == ID(s) -> tell() :: else fi    /* of those who may be dead */
#elif defined(BUG_NOREPEAT)
		skip
#else
		if :: queue[0] == ID(s) || seen[OF(queue[0])] >= SILENT -> tell() :: else fi
#endif
	:: else
	fi
}

inline release(x) {
	if
	:: holder == x -> handOver(NONE)
	:: else -> remove(x)
	fi
}

/* ---- a session's own steps */

inline forget(s) { /* the hold id is spent */
	st[s] = idle; until[s] = 0; look[s] = 0; want[s] = 0; try[s] = 0; reply[s] = 0; got[s] = 0;
	granted[ID(s)] = 0; others[ID(s)] = 0; wanted[ID(s)] = 0;
	if :: id[s] < IDS -> id[s]++ :: else fi
}

inline take(s, term) {
	st[s] = held; until[s] = term; want[s] = 0; look[s] = 0; try[s] = 0
}

proctype Session(byte s) {
	do
	/* Lock, or TryLock: the request is sent */
	:: d_step { runs(s) && st[s] == idle && id[s] < IDS ->
		st[s] = asking; until[s] = LEASE - 1; try[s] = 0 }
#if TRIES
	:: d_step { runs(s) && st[s] == idle && id[s] < IDS ->
		st[s] = asking; until[s] = LEASE - 1; try[s] = 1 }
#endif
	/* the script runs; its reply is under way, and messages may overtake it */
	:: d_step { !dead[s] && st[s] == asking && !reply[s] -> acquire(s); reply[s] = 1 }
	/* the reply arrives, late if the process was frozen */
	:: d_step { runs(s) && st[s] == asking && reply[s] ->
		reply[s] = 0;
		if
		:: got[s] && until[s] > 0 -> got[s] = 0; take(s, until[s])
		:: got[s] && until[s] == 0 -> got[s] = 0; st[s] = leaving; want[s] = 0 /* too late to be certain */
		:: !got[s] && try[s] -> st[s] = waiting; look[s] = LOOK; until[s] = ASK
		:: !got[s] && !try[s] -> st[s] = waiting; look[s] = LOOK;
			/* a claim counts from when the request was sent that found the call waiting */
#ifndef BUG_FROMREPLY
			until[s] = (until[s] > LEASE - CLAIM -> until[s] - (LEASE - CLAIM) : 0)
#else
			until[s] = CLAIM - 1
#endif
		fi }
	/* a look: the reply is lost, or it is answered */
	:: d_step { runs(s) && st[s] == waiting && look[s] == 0 && losses > 0 -> losses--; probe(s); b = 0; look[s] = LOOK }
	:: d_step { runs(s) && st[s] == waiting && look[s] == 0 ->
		probe(s);
		if
		:: holder == ID(s) -> take(s, LEASE - 1)
		:: holder != ID(s) && !b -> forget(s)                  /* the claim has lapsed */
		:: else -> look[s] = LOOK; if :: !try[s] -> until[s] = CLAIM - 1 :: else fi
		fi;
		b = 0 }
	/* messages */
	:: d_step { runs(s) && id[s] < IDS && granted[ID(s)] && st[s] == waiting ->
		granted[ID(s)] = 0;
		if
		:: !try[s] && until[s] > 0 ->
			b = others[ID(s)]; take(s, until[s]); want[s] = b; b = 0
		:: else ->                                              /* confirmed by a round trip: the request of acquire.lua */
			if
			:: holder == ID(s) -> ttl = LEASE; b = others[ID(s)]; take(s, LEASE - 1); want[s] = b; b = 0
			:: else -> remove(ID(s)); forget(s)
			fi
		fi }
	:: d_step { runs(s) && id[s] < IDS && granted[ID(s)] && st[s] != waiting && st[s] != asking -> granted[ID(s)] = 0 }
	:: d_step { runs(s) && id[s] < IDS && granted[ID(s)] && st[s] == asking -> granted[ID(s)] = 0; look[s] = 0 }
	:: d_step { runs(s) && id[s] < IDS && wanted[ID(s)] ->
		wanted[ID(s)] = 0;
		if
		:: st[s] == held -> want[s] = 1
		:: st[s] == kept ->
#ifndef BUG_IGNORED
			st[s] = leaving; cool[s] = COOL
#else
			want[s] = 1
#endif
		:: else                                                 /* it has overtaken the reply */
		fi }
	/* a TryLock that has waited enough */
	:: d_step { runs(s) && st[s] == waiting && try[s] && until[s] == 0 && !granted[ID(s)] -> st[s] = cancelled }
	/* Unlock */
	:: d_step { runs(s) && st[s] == held && until[s] > 0 ->
		if
#ifdef BUG_DEAFKEEPS
		:: !want[s] && cool[s] == 0 -> st[s] = kept
#else
		:: !want[s] && cool[s] == 0 && !deaf[s] -> st[s] = kept
#endif
		:: else -> if :: want[s] -> cool[s] = COOL :: else fi; st[s] = leaving
		fi }
	/* Lock of what is kept */
#ifdef BUG_NOCHECK
	:: d_step { runs(s) && st[s] == kept -> st[s] = held; until[s] = LEASE - 1 }
#else
	:: d_step { runs(s) && st[s] == kept && until[s] >= LEASE / 2 -> st[s] = held }
#endif
	/* the subscription is gone: nobody could recall what is kept */
#if !defined(BUG_DEAFKEEPS)
	:: d_step { runs(s) && st[s] == kept && deaf[s] -> st[s] = leaving }
#endif
	/* the local deadline */
	:: d_step { runs(s) && (st[s] == held || st[s] == kept) && until[s] == 0 -> st[s] = leaving }
	/* the release, whose request or reply may be lost */
	:: d_step { runs(s) && (st[s] == leaving || st[s] == cancelled) && losses > 0 -> losses--; release(ID(s)) }
	:: d_step { runs(s) && (st[s] == leaving || st[s] == cancelled) -> release(ID(s)); forget(s) }
	/* a renewal */
	:: d_step { runs(s) && (st[s] == held || st[s] == kept) && until[s] <= LEASE - 2 && until[s] > 0 && !fresh[s] ->
		fresh[s] = 1;
		if
		:: holder == ID(s) -> ttl = LEASE; until[s] = LEASE - 1
		:: else -> forget(s)
		fi }
	:: d_step { runs(s) && (st[s] == held || st[s] == kept) && until[s] <= LEASE - 2 && until[s] > 0 && !fresh[s] && losses > 0 ->
		fresh[s] = 1; losses-- }
	:: dead[s] -> break
	od
}

#ifdef BUG_DEAFKEEPS
#define leavesDeaf(s) false
#else
#define leavesDeaf(s) (st[s] == kept && deaf[s])
#endif
#define due(s) (runs(s) && ( \
	st[s] == asking || st[s] == leaving || st[s] == cancelled || \
	(st[s] == waiting && look[s] == 0) || (st[s] == waiting && try[s] && until[s] == 0) || \
	((st[s] == held || st[s] == kept) && (until[s] == 0 || (until[s] <= LEASE - 2 && !fresh[s]))) || \
	leavesDeaf(s) || \
	(id[s] < IDS && (granted[ID(s)] || wanted[ID(s)]))))

#if SESSIONS == 2
#define quiet (!due(0) && !due(1))
#define keptBy(s) (runs(s) && st[s] == kept && holder == ID(s))
#define someKept (keptBy(0) || keptBy(1))
#define waits(s) (runs(s) && st[s] == waiting && !try[s])
#define someWait (waits(0) || waits(1))
#else
#define quiet (!due(0) && !due(1) && !due(2))
#define keptBy(s) (runs(s) && st[s] == kept && holder == ID(s))
#define someKept (keptBy(0) || keptBy(1) || keptBy(2))
#define waits(s) (runs(s) && st[s] == waiting && !try[s])
#define someWait (waits(0) || waits(1) || waits(2))
#endif

#define DOWN(x) x = (x > 0 -> x - 1 : 0)

proctype World() {
	do
	/* a tick */
	:: d_step { quiet ->
		if
		:: someKept && someWait -> stale = stale + 1
		:: else
		fi;
		assert(stale <= GIVEUP);
		DOWN(ttl);
		if :: ttl == 0 && holder != NONE -> holder = NONE; stale = 0 :: else fi;
		i = 0;
		do
		:: i < SESSIONS ->
			DOWN(until[i]); DOWN(look[i]); DOWN(cool[i]); fresh[i] = 0;
			if :: seen[i] < SILENT -> seen[i]++ :: else fi;
			i++
		:: else -> break
		od;
		i = 0 }
	/* clocks drift: a lease ends a tick early */
	:: d_step { ttl == 1 && holder != NONE -> holder = NONE; ttl = 0; stale = 0 }
	/* a message is lost */
	:: d_step { losses > 0 -> i = 0;
		do
		:: i < ALL && !(granted[i] || wanted[i]) -> i++
		:: else -> break
		od;
		if
		:: i < ALL -> losses--; granted[i] = 0; wanted[i] = 0
		:: else
		fi;
		i = 0 }
#if FREEZES
	:: d_step { freezes > 0 && runs(0) -> freezes--; frozen[0] = 1 }
	:: d_step { freezes > 0 && runs(1) -> freezes--; frozen[1] = 1 }
	:: d_step { frozen[0] -> frozen[0] = 0 }
	:: d_step { frozen[1] -> frozen[1] = 0 }
#endif
#if CRASHES
	:: d_step { crashes > 0 && !dead[0] -> crashes--; dead[0] = 1; wanted[ID(0)] = 0 }
	:: d_step { crashes > 0 && !dead[1] -> crashes--; dead[1] = 1 }
#endif
#if BREAKS
	:: d_step { breaks > 0 && !deaf[0] -> breaks--; deaf[0] = 1 }
	:: d_step { deaf[0] -> deaf[0] = 0 }
#endif
	od
}

init {
	atomic {
		i = 0;
		do
		:: i < SESSIONS -> run Session(i); i++
		:: else -> break
		od;
		i = 0;
		run World()
	}
}

#if SESSIONS == 2
#define overlap (certain(0) && certain(1))
#else
#define overlap ((certain(0) && certain(1)) || (certain(0) && certain(2)) || (certain(1) && certain(2)))
#endif
never { do :: assert(!overlap) od }
