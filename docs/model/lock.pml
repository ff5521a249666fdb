/*
 * A lock in Redis and its contenders: acquire, queue, grant, claim and its confirmation, look, release, expiry.
 * README.md says what each step is in the code, and how to read this.
 *
 * Every option of a process is one atomic step. Time is the number of ticks that are left, of each lease and local
 * deadline. A tick comes when nothing is due of those who are alive and run: a request takes less than a tick, or
 * fails. A frozen process does nothing, but its requests are executed, and messages and replies wait for it.
 * What goes wrong costs a budget: LOSSES (of a request, reply or message), FREEZES, CRASHES, BREAKS, CANCELS.
 */

#ifndef CALLS
#define CALLS 2
#endif
#ifndef IDS
#define IDS 2              /* hold ids of each call */
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef FREEZES
#define FREEZES 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif

/* FAIR: calls 0 and 1 are places of one session, as those of a FairMutex, with one hold id each. Otherwise each
 * call has its session. */
#ifdef FAIR
#define S(c) ((c) < 2 -> 0 : 1)
#define LAST(c) ((c) < 2 -> 1 : IDS)
#else
#define S(c) (c)
#define LAST(c) IDS
#endif

#define LEASE  4
#define CLAIM  3
#define LOOK   1           /* a third of a claim */
#define SILENT 2           /* more than a look, less than a claim */

/* How many ticks a call that is alive waits while nobody who is alive has the lock: for each session that dies or
 * freezes a lease, or less if it only waited; for each message or subscription that is lost a claim; and looks. */
#ifndef PATIENCE
#define PATIENCE (LEASE * (FREEZES + CRASHES) + CLAIM * (LOSSES + BREAKS) + 2 * LOOK)
#endif

#define ALL (CALLS * IDS)
#define NONE ALL
#define OF(x) ((x) / IDS)
#define ID(c) ((c) * IDS + id[c])

/* ---- Redis */
byte holder = NONE, ttl, fence;
byte queue[ALL], queued;
bit back[ALL];             /* score below 0: it stands back */
bit sure[ALL];             /* score below 1: it comes next, though its session hears nothing */
byte seen[CALLS];          /* of a session: ticks since it looked, up to SILENT */

/* ---- on the wire */
bit granted[ALL];          /* a message granted <id> <token> */
byte token[ALL];           /* that it, or the last reply for the id, tells */
mtype = {none, sent, found, queuedStill, lost};
mtype req[CALLS] = none;   /* the request of the call that is under way: sent, or executed with a reply */
byte age[CALLS];           /* what a lease would have left that began when it was sent */
bit ghost[ALL];            /* acquire.lua may still be executed, though the call has given up waiting for it */

/* ---- processes */
mtype = {idle, asking, waiting, claiming, held, leaving, over};
mtype st[CALLS] = idle;
byte id[CALLS];
byte until[CALLS];         /* held: certain for so long; waiting: a grant would be */
byte look[CALLS];
bit unsure[CALLS];         /* lease.Indeterminate */
bit claim[CALLS];          /* the hold is a claim, which has not been renewed yet */
bit fresh[CALLS];          /* one renewal in a tick */
bit dead[CALLS], frozen[CALLS], deaf[CALLS]; /* by session */
byte clean[ALL];           /* the cleaner's task: 1 until it is confirmed; 2, if indeterminate, for a lease */
byte cleanFor[ALL];

byte losses = LOSSES, freezes = FREEZES, crashes = CRASHES, breaks = BREAKS, cancels = CANCELS;

/* ---- what is checked */
byte best;                 /* the largest token of a hold */
bit taken[ALL];
byte waited;

byte i, j, k; bit b;       /* of the inlines; 0 between steps */

#define runs(c) (!dead[S(c)] && !frozen[S(c)])
#define hears(x) (!deaf[S(OF(x))] && !dead[S(OF(x))])
#define silent(x) (seen[S(OF(x))] >= SILENT)
#define certain(c) (st[c] == held && until[c] > 0 && !dead[S(c)])

inline find(x) {
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
		back[x] = 0; sure[x] = 0; queued--;
		do
		:: k < queued -> queue[k] = queue[k + 1]; k++
		:: else -> break
		od;
		queue[queued] = 0
	:: else
	fi;
	k = 0
}

inline arrive(x) {
	find(x);
	if
	:: k == queued -> queue[queued] = x; queued++; seen[S(OF(x))] = 0
	:: else
	fi;
	k = 0
}

#ifdef BUG_SAMETOKEN
inline fenceOf(x) { if :: fence == 0 -> fence++ :: else fi; token[x] = fence }
#else
inline fenceOf(x) { fence++; token[x] = fence }
#endif

/* passSilent: who was not seen stands back */
inline passSilent() {
	k = 0;
#ifndef BUG_EACHPLACE
	do
	:: k < queued -> if :: silent(queue[k]) -> back[queue[k]] = 1 :: else fi; k++
	:: else -> break
	od;
#endif
	k = 0
}

/* handOver gives a lock that has no holder any more to the next place; self learns by the reply */
inline handOver(self) {
	k = 0;
	do
	:: k < queued && !(queue[k] == self || (!back[queue[k]] && (sure[queue[k]] || hears(queue[k])))) ->
		back[queue[k]] = 1; k++
	:: else -> break
	od;
	if
	:: k == queued -> holder = NONE; ttl = 0; k = 0
	:: else ->
		j = queue[k];
		b = hears(j) && j != self;
#ifdef BUG_KEEPPLACE
		k = 0;
#else
		remove(j);
#endif
		holder = j; ttl = CLAIM;
		fenceOf(j);
		granted[j] = b;
		j = 0; b = 0
	fi
}

/* ---- scripts */

/* acquire.lua; waits tells whether it queues */
inline acquire(x, waits) {
	if
	:: holder == NONE ->
		passSilent();
		b = 0; k = 0;
		do
		:: k < queued -> if :: !back[queue[k]] -> b = 1 :: else fi; k++
		:: else -> break
		od;
		k = 0;
		if
		:: b && waits -> b = 0; arrive(x); handOver(x)
		:: b && !waits -> b = 0; handOver(NONE)
		:: else -> holder = x; ttl = LEASE; fenceOf(x)
		fi
	:: else
	fi;
	b = 0;
	if
	:: holder == x -> if :: ttl < LEASE -> ttl = LEASE :: else fi; token[x] = fence
	:: holder != x && waits -> arrive(x)
	:: else
	fi
}

/* look.lua */
inline probe(x) {
	find(x);
	if
	:: k < queued -> k = 0;
		seen[S(OF(x))] = 0;
		if :: back[x] -> back[x] = 0; sure[x] = !hears(x) :: else fi;
		if
		:: holder == NONE -> passSilent(); handOver(x)
		:: else
		fi
	:: else -> k = 0
#ifdef BUG_REQUEUE
		if :: holder != x -> arrive(x) :: else fi
#endif
	fi;
	if
	:: holder == x -> if :: ttl < LEASE -> ttl = LEASE :: else fi; token[x] = fence
	:: else
	fi
}

/* release.lua */
inline release(x) {
#ifdef BUG_ANYHOLD
	if
	:: holder != NONE -> handOver(NONE)
#else
	if
	:: holder == x -> handOver(NONE)
#endif
	:: else -> remove(x)
	fi
}

/* ---- the session */

#ifdef BUG_NOMARGIN
#define SURE LEASE
#else
#define SURE (LEASE - 1)   /* lease.CertainUntil */
#endif

inline begin(c) { req[c] = sent; age[c] = SURE }

inline answered(c) { req[c] = none; age[c] = 0 }

/* the call goes on under another id; how is the cleaner's task for this one */
inline next(c, how) {
	if
	:: how > 0 -> clean[ID(c)] = how; cleanFor[ID(c)] = LEASE
	:: else
	fi;
	st[c] = idle; until[c] = 0; look[c] = 0; unsure[c] = 0; claim[c] = 0; answered(c);
	id[c]++;
	if :: id[c] == LAST(c) -> st[c] = over; id[c]-- :: else fi
}

inline take(c, left, isClaim) {
	assert(!taken[ID(c)]);
	taken[ID(c)] = 1;
	assert(token[ID(c)] > best);
	best = token[ID(c)];
	st[c] = held; until[c] = left; claim[c] = isClaim; look[c] = 0; waited = 0
}

inline sinceSent(c) { /* until when a grant would be certain that comes after the request under way */
#ifndef BUG_FROMREPLY
	until[c] = (age[c] > LEASE - CLAIM -> age[c] - (LEASE - CLAIM) : 0)
#else
	until[c] = CLAIM - 1
#endif
}

proctype Call(byte c) {
	do
	/* attempt.ask */
	:: d_step { runs(c) && st[c] == idle -> st[c] = asking; begin(c) }
	:: d_step { !dead[S(c)] && st[c] == asking && req[c] == sent ->
		acquire(ID(c), true);
		req[c] = (holder == ID(c) -> found : queuedStill) }
	:: d_step { runs(c) && st[c] == asking && req[c] == found ->
		if
		:: age[c] > 0 -> take(c, age[c], 0); answered(c)
		:: else -> st[c] = claiming; unsure[c] = 1; begin(c)      /* sent again, without queueing */
		fi }
	:: d_step { runs(c) && st[c] == asking && req[c] == queuedStill ->
		st[c] = waiting; look[c] = LOOK; sinceSent(c); answered(c) }
	/* no reply: it may have been executed, or may be still */
	:: d_step { runs(c) && st[c] == asking && req[c] != none && losses > 0 ->
		losses--;
		if :: req[c] == sent -> ghost[ID(c)] = 1 :: else fi;
#ifdef BUG_RESEND
		begin(c)
#else
		unsure[c] = 1; st[c] = waiting; look[c] = 0; sinceSent(c); answered(c)
#endif
		}
	/* Queue.probe */
	:: d_step { runs(c) && st[c] == waiting && look[c] == 0 && req[c] == none -> begin(c) }
	:: d_step { !dead[S(c)] && st[c] == waiting && req[c] == sent ->
		probe(ID(c));
		find(ID(c));
		if
		:: holder == ID(c) -> req[c] = found
		:: holder != ID(c) && k < queued -> req[c] = queuedStill
		:: else -> req[c] = lost
		fi;
		k = 0 }
	:: d_step { runs(c) && st[c] == waiting && req[c] != none && req[c] != sent ->
		if
		:: req[c] == found && age[c] > 0 -> take(c, age[c], 0); answered(c)
		:: req[c] == found && age[c] == 0 -> st[c] = claiming; begin(c)
		:: req[c] == queuedStill -> sinceSent(c); look[c] = LOOK; answered(c)
		:: else -> if :: unsure[c] -> next(c, 2) :: else -> next(c, 1) fi
		fi }
	:: d_step { runs(c) && st[c] == waiting && req[c] != none && losses > 0 -> losses--; look[c] = LOOK; answered(c) }
	/* Queue.Heard, attempt.claim */
	:: d_step { runs(c) && granted[ID(c)] && st[c] == waiting ->
		granted[ID(c)] = 0;
		answered(c);
		if
#ifdef BUG_FROMARRIVAL
		:: true -> take(c, CLAIM - 1, 1)
#else
		:: until[c] > 0 -> take(c, until[c], 1)
#endif
		:: else -> st[c] = claiming; begin(c)
		fi }
	:: d_step { runs(c) && granted[ID(c)] && st[c] == asking -> granted[ID(c)] = 0 } /* the look finds it */
#ifdef BUG_TWICE
	:: d_step { runs(c) && granted[ID(c)] && st[c] == held -> granted[ID(c)] = 0; take(c, CLAIM - 1, 1) }
#endif
	:: d_step { runs(c) && granted[ID(c)] && st[c] != waiting && st[c] != asking -> granted[ID(c)] = 0 }
	/* attempt.claim asks whether it still holds */
	:: d_step { !dead[S(c)] && st[c] == claiming && req[c] == sent ->
		acquire(ID(c), false);
		req[c] = (holder == ID(c) -> found : lost) }
	:: d_step { runs(c) && st[c] == claiming && (req[c] == found || req[c] == lost) ->
		if
		:: req[c] == found && age[c] > 0 -> take(c, age[c], 0); answered(c)
		:: req[c] == found && age[c] == 0 -> unsure[c] = 1; begin(c)
		:: else -> if :: unsure[c] -> next(c, 2) :: else -> next(c, 1) fi
		fi }
	:: d_step { runs(c) && st[c] == claiming && req[c] != none && losses > 0 ->
		losses--; unsure[c] = 1;
		if :: req[c] == sent -> ghost[ID(c)] = 0 :: else fi;
		begin(c) }
	/* Watchdog.renew: a claim at once, a lease after a third */
	:: d_step { runs(c) && st[c] == held && req[c] == none && !fresh[c] && until[c] > 0 && (claim[c] || until[c] < LEASE - 1) ->
		fresh[c] = 1; begin(c) }
	:: d_step { !dead[S(c)] && st[c] == held && req[c] == sent ->
		if
		:: holder == ID(c) -> ttl = LEASE; req[c] = found
		:: else -> req[c] = lost
		fi }
	:: d_step { runs(c) && st[c] == held && (req[c] == found || req[c] == lost) ->
		if
		:: until[c] == 0 -> answered(c)
		:: until[c] > 0 && req[c] == lost -> next(c, (unsure[c] -> 2 : 0))
		:: else ->
#ifdef BUG_RENEWEDLATE
			until[c] = LEASE - 1;
#else
			until[c] = (age[c] > until[c] -> age[c] : until[c]);
#endif
			claim[c] = 0; answered(c)
		fi }
	:: d_step { runs(c) && st[c] == held && req[c] != none && losses > 0 -> losses--; answered(c) }
	/* Watchdog.expired */
	:: d_step { runs(c) && st[c] == held && until[c] == 0 -> next(c, (unsure[c] -> 2 : 1)) }
	/* Unlock: the renewal stops, the release is sent, again if need be */
	:: d_step { runs(c) && st[c] == held && until[c] > 0 -> st[c] = leaving; until[c] = 0; claim[c] = 0; begin(c) }
	:: d_step { !dead[S(c)] && st[c] == leaving && req[c] == sent -> release(ID(c)); req[c] = found }
	:: d_step { runs(c) && st[c] == leaving && req[c] == found -> next(c, (unsure[c] -> 2 : 0)) }
	:: d_step { runs(c) && st[c] == leaving && req[c] != none && losses > 0 -> losses--; begin(c) }
#if CANCELS
	/* the caller's ctx ends */
	:: d_step { runs(c) && (st[c] == asking || st[c] == waiting || st[c] == claiming) && cancels > 0 ->
		cancels--;
		if :: st[c] == asking && req[c] == sent -> ghost[ID(c)] = 1 :: else fi;
#ifdef BUG_FORGET
		if :: st[c] == waiting -> next(c, 0) :: else -> next(c, 2) fi
#elif defined(BUG_DEFINITE)
		next(c, 1)
#else
		if :: st[c] == waiting && !unsure[c] -> next(c, 1) :: else -> next(c, 2) fi
#endif
		}
#endif
	od
}

/* Cleaner, of each id that a call has given up, and acquire.lua of which it had no reply */
proctype Cleaner(byte x) {
	do
	:: d_step { runs(OF(x)) && clean[x] == 1 -> release(x); clean[x] = 0; cleanFor[x] = 0 }
	:: d_step { runs(OF(x)) && clean[x] == 2 ->
		find(x); b = (holder == x || k < queued); k = 0;
		if :: b -> b = 0; release(x); clean[x] = 0; cleanFor[x] = 0 :: else fi }
	:: d_step { runs(OF(x)) && clean[x] == 2 && cleanFor[x] == 0 && !ghost[x] -> release(x); clean[x] = 0 }
	:: d_step { ghost[x] -> ghost[x] = 0; acquire(x, true) }
	:: d_step { ghost[x] -> ghost[x] = 0 }
	od
}

#define inQueue(x) ((queued > 0 && queue[0] == (x)) || (queued > 1 && queue[1] == (x)) || \
	(queued > 2 && queue[2] == (x)) || (queued > 3 && queue[3] == (x)))
#define cleans(x) (runs(OF(x)) && (clean[x] == 1 || (clean[x] == 2 && (cleanFor[x] == 0 || holder == (x) || inQueue(x)))))
#ifdef LATE                /* requests of a frozen process may take any time: nobody's patience is measured */
#define underway(c) false
#define measured false
#else
#define underway(c) (!dead[S(c)] && req[c] == sent)
#define measured true
#endif
#define due(c) (underway(c) || runs(c) && (req[c] != none || st[c] == asking || st[c] == claiming || st[c] == leaving || \
	(st[c] == waiting && look[c] == 0) || granted[ID(c)] || \
	(st[c] == held && (until[c] == 0 || (!fresh[c] && (claim[c] || until[c] < LEASE - 1))))))
#define waits(c) (runs(c) && st[c] == waiting)
#define works(c) (runs(c) && st[c] == held)

#if CALLS == 2
#define anyDue (due(0) || due(1))
#define anyWaits (waits(0) || waits(1))
#define anyWorks (works(0) || works(1))
#define overlap (certain(0) && certain(1))
#else
#define anyDue (due(0) || due(1) || due(2))
#define anyWaits (waits(0) || waits(1) || waits(2))
#define anyWorks (works(0) || works(1) || works(2))
#define overlap ((certain(0) && certain(1)) || (certain(0) && certain(2)) || (certain(1) && certain(2)))
#endif
#if ALL == 2
#define anyClean (cleans(0) || cleans(1))
#elif ALL == 3
#define anyClean (cleans(0) || cleans(1) || cleans(2))
#elif ALL == 4
#define anyClean (cleans(0) || cleans(1) || cleans(2) || cleans(3))
#else
#define anyClean (cleans(0) || cleans(1) || cleans(2) || cleans(3) || cleans(4) || cleans(5))
#endif

#define DOWN(x) x = (x > 0 -> x - 1 : 0)

/* an id that is over and that nobody cleans up after must not be in Redis */
inline nothingLeft() {
	i = 0;
	do
	:: i < ALL ->
		find(i);
		assert(dead[S(OF(i))] || clean[i] > 0 || ghost[i] || (i == ID(OF(i)) && st[OF(i)] != over && st[OF(i)] != idle) ||
			(k == queued && (holder != i || frozen[S(OF(i))])));
		k = 0;
		i++
	:: else -> break
	od;
	i = 0
}

proctype World() {
	do
	:: d_step { !anyDue && !anyClean ->
		nothingLeft();
		if :: measured && anyWaits && !anyWorks -> waited++ :: else -> waited = 0 fi;
		assert(waited <= PATIENCE);
		DOWN(ttl);
		if :: ttl == 0 -> holder = NONE :: else fi;
		i = 0;
		do
		:: i < CALLS ->
			DOWN(until[i]); DOWN(look[i]); DOWN(age[i]); fresh[i] = 0;
			if :: seen[i] < SILENT -> seen[i]++ :: else fi;
			i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < ALL -> DOWN(cleanFor[i]); if :: cleanFor[i] == 0 -> ghost[i] = 0 :: else fi; i++
		:: else -> break
		od;
		i = 0 }
	/* clocks drift: a lease in Redis ends up to a tick early */
	:: d_step { ttl == 1 && holder != NONE -> holder = NONE; ttl = 0 }
#if LOSSES
	:: d_step { losses > 0 && granted[ID(0)] -> losses--; granted[ID(0)] = 0 }
	:: d_step { losses > 0 && granted[ID(1)] -> losses--; granted[ID(1)] = 0 }
#endif
#if FREEZES
	:: d_step { freezes > 0 && runs(0) -> freezes--; frozen[S(0)] = 1 }
	:: d_step { freezes > 0 && runs(1) -> freezes--; frozen[S(1)] = 1 }
	:: d_step { frozen[S(0)] -> frozen[S(0)] = 0 }
	:: d_step { frozen[S(1)] -> frozen[S(1)] = 0 }
#endif
#if CRASHES
	:: d_step { crashes > 0 && !dead[S(0)] -> crashes--; dead[S(0)] = 1; frozen[S(0)] = 0 }
#endif
#if BREAKS
	:: d_step { breaks > 0 && !deaf[S(0)] -> breaks--; deaf[S(0)] = 1 }
	:: d_step { deaf[S(0)] -> deaf[S(0)] = 0; look[0] = 0 }
#endif
	od
}

init {
	atomic {
		i = 0;
		do :: i < CALLS -> run Call(i); i++ :: else -> break od;
		i = 0;
		do :: i < ALL -> run Cleaner(i); i++ :: else -> break od;
		i = 0;
		run World()
	}
}

never { do :: assert(!overlap) od }
