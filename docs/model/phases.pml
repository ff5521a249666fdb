/*
 * A read-write lock: readers and writers take turns. Steps, ticks and faults are as in lock.pml; requests are one step
 * here, as their ways are the same, but grants are messages. Sessions 0 to READERS-1 read, the others write.
 */

#ifndef SESSIONS
#define SESSIONS 3
#endif
#ifndef READERS
#define READERS 2
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
#ifndef CANCELS
#define CANCELS 0
#endif

#define LEASE  4
#define CLAIM  3
#define LOOK   1
#define SILENT 2
#define NONE SESSIONS
#define PATIENCE (LEASE * (FREEZES + CRASHES) + CLAIM * LOSSES + 2 * LOOK)

/* ---- Redis */
byte writer = NONE, ttl;   /* who writes, and the rest of that lease */
byte reads[SESSIONS];      /* what is left of each reader's own lease */
byte queue[SESSIONS], queued; /* writers, in order of arrival */
bit queues[SESSIONS];      /* readers */
bit back[SESSIONS];        /* stands back */
byte seen[SESSIONS];
bit granted[SESSIONS];     /* the message is under way */

/* ---- sessions */
mtype = {idle, waiting, held};
mtype st[SESSIONS] = idle;
byte until[SESSIONS], look[SESSIONS];
bit claim[SESSIONS], fresh[SESSIONS], dead[SESSIONS], frozen[SESSIONS];
byte losses = LOSSES, freezes = FREEZES, crashes = CRASHES, cancels = CANCELS;

/* ---- what is checked */
byte writers[SESSIONS];    /* since a reader queues: how many writers got in */
bit met[SESSIONS * SESSIONS]; /* since a writer queues: which readers got in */
byte waited;

byte i, j, k, n; bit b;

#define runs(s) (!dead[s] && !frozen[s])
#define reading (reads[0] > 0 || (READERS > 1 && reads[1] > 0))
#define certain(s) (st[s] == held && until[s] > 0 && !dead[s])
#define present(s) (!back[s] && !dead[s])

inline remove(x) {
	k = 0; back[x] = 0; queues[x] = 0;
	do :: k < queued && queue[k] != x -> k++ :: else -> break od;
	if
	:: k < queued ->
		queued--;
		do :: k < queued -> queue[k] = queue[k + 1]; k++ :: else -> break od;
		queue[queued] = 0
	:: else
	fi;
	k = 0
}

/* find: b tells whether x queues */
inline find(x) {
	k = 0; b = queues[x];
	do :: k < queued -> b = b || queue[k] == x; k++ :: else -> break od;
	k = 0
}

/* stoppedBy: k is the place of the first writer that is there and not silent, or queued */
inline stoppedBy() {
	k = 0;
	do
	:: k < queued && !(present(queue[k]) && seen[queue[k]] < SILENT) -> k++
	:: else -> break
	od
}

inline enters(r) { /* a reader gets in */
	reads[r] = LEASE; waited = 0; writers[r] = 0;
	i = READERS;
	do
	:: i < SESSIONS ->
		if
		:: st[i] == waiting && runs(i) && present(i) && seen[i] < SILENT && writer != i ->
			assert(!met[i * SESSIONS + r]);
			met[i * SESSIONS + r] = 1
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* letReadersIn lets all in that queue and are there; n is how many. self learns by the reply. */
inline letReadersIn(self) {
	n = 0; j = 0;
	do
	:: j < READERS ->
		if
		:: queues[j] && (j == self || present(j)) ->
			queues[j] = 0; back[j] = 0; n++;
			enters(j);
			reads[j] = CLAIM;
			granted[j] = (j != self)
		:: queues[j] && !(j == self || present(j)) -> back[j] = 1
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0
}

inline grantWriter(self) { /* lib/grant.lua; the next that is there */
	k = 0;
	do
	:: k < queued && !(queue[k] == self || present(queue[k])) -> back[queue[k]] = 1; k++
	:: else -> break
	od;
	if
	:: k < queued ->
		writer = queue[k]; ttl = CLAIM;
		granted[writer] = (writer != self);
		remove(writer);
		waited = 0;
		i = 0;
		do
		:: i < READERS ->
			if :: st[i] == waiting && queues[i] && runs(i) && !back[i] -> writers[i]++ :: else fi;
			assert(writers[i] <= 1 + FREEZES + CRASHES);
			i++
		:: else -> break
		od;
		i = 0
	:: else
	fi;
	k = 0
}

inline forget(w) { /* a writer begins to wait */
	i = 0;
	do :: i < SESSIONS -> met[w * SESSIONS + i] = 0; i++ :: else -> break od;
	i = 0
}

/* handOver gives the lock, which nobody has, to the next */
inline handOver(writerLeaves, self) {
	n = 0;
#ifdef BUG_WRITERSFIRST
	if :: false -> skip :: else fi;
#else
	if :: writerLeaves -> letReadersIn(self) :: else fi;
#endif
	if :: n == 0 -> grantWriter(self) :: else fi;
	if :: n == 0 && writer == NONE -> letReadersIn(self) :: else fi;
	n = 0
}

inline passSilent() {
	k = 0;
	do
	:: k < SESSIONS -> if :: seen[k] >= SILENT -> back[k] = 1 :: else fi; k++
	:: else -> break
	od;
	k = 0
}

/* what acquire.lua, read.lua and look.lua have in common for a place of s */
inline examine(s) {
	seen[s] = 0; back[s] = 0;
	if
	:: writer == NONE && !reading -> passSilent(); back[s] = 0; handOver(false, s)
	:: writer == NONE && reading ->
		stoppedBy();
		if :: k == queued -> k = 0; letReadersIn(s); n = 0 :: else -> k = 0 fi
	:: else
	fi
}

proctype Session(byte s) {
	do
	/* read.lua */
	:: d_step { s < READERS && runs(s) && st[s] == idle ->
		stoppedBy(); b = (k < queued); k = 0;
		if
		:: writer == NONE && (!reading && queued == 0 || reading &&
#ifdef BUG_JOIN
			true
#else
			!b
#endif
			) ->
			enters(s); st[s] = held; until[s] = LEASE - 1
		:: else ->
			queues[s] = 1; back[s] = 0; seen[s] = 0; writers[s] = 0;
			examine(s);
			st[s] = (reads[s] > 0 -> held : waiting);
			if :: st[s] == held -> reads[s] = LEASE; until[s] = LEASE - 1 :: else -> look[s] = LOOK; until[s] = CLAIM - 1 fi
		fi;
		b = 0 }
	/* acquire.lua */
	:: d_step { s >= READERS && runs(s) && st[s] == idle ->
		queue[queued] = s; queued++; seen[s] = 0; st[s] = waiting; forget(s);
		if
		:: writer == NONE && !reading -> examine(s)
		:: else
		fi;
		if
		:: writer == s -> ttl = LEASE; st[s] = held; until[s] = LEASE - 1
		:: else -> look[s] = LOOK; until[s] = CLAIM - 1
		fi }
	/* look.lua */
	:: d_step { runs(s) && st[s] == waiting && look[s] == 0 ->
		if :: seen[s] >= SILENT -> forget(s) :: else fi;
		find(s);
		if :: b -> examine(s) :: else fi;
		if
		:: s < READERS && reads[s] > 0 -> reads[s] = LEASE; st[s] = held; until[s] = LEASE - 1; granted[s] = 0
		:: s >= READERS && writer == s -> ttl = LEASE; st[s] = held; until[s] = LEASE - 1; granted[s] = 0
		:: else ->
			find(s);
			if
			:: b -> look[s] = LOOK; until[s] = CLAIM - 1
			:: else -> st[s] = idle; until[s] = 0; granted[s] = 0; writers[s] = 0 /* its claim has lapsed */
			fi;
			b = 0
		fi }
	/* granted <id>, in time or to be confirmed */
	:: d_step { runs(s) && granted[s] ->
		granted[s] = 0;
		if
#ifdef BUG_UNCONFIRMED
		:: st[s] == waiting -> st[s] = held; until[s] = CLAIM - 1; claim[s] = 1; look[s] = 0
#else
		:: st[s] == waiting && until[s] > 0 -> st[s] = held; claim[s] = 1; look[s] = 0
#endif
		:: st[s] == waiting && until[s] == 0 -> look[s] = 0
		:: else
		fi }
	/* renew.lua, renew_read.lua */
	:: d_step { runs(s) && st[s] == held && until[s] > 0 && !fresh[s] && (claim[s] || until[s] < LEASE - 1) ->
		fresh[s] = 1; claim[s] = 0;
		if
		:: s < READERS && reads[s] > 0 -> reads[s] = LEASE; until[s] = LEASE - 1
		:: s >= READERS && writer == s -> ttl = LEASE; until[s] = LEASE - 1
		:: else -> st[s] = idle; until[s] = 0
		fi }
	/* the local deadline, and Unlock: release.lua, release_read.lua */
	:: d_step { runs(s) && st[s] == held ->
		st[s] = idle; until[s] = 0; claim[s] = 0;
		if
		:: s < READERS && reads[s] > 0 ->
			reads[s] = 0;
#ifdef BUG_ANYREADER
			handOver(false, NONE)
#else
			if :: !reading -> handOver(false, NONE) :: else fi
#endif
		:: s >= READERS && writer == s -> writer = NONE; ttl = 0; handOver(true, NONE)
		:: else
		fi }
#if CANCELS
	/* a wait is cancelled: its place ends, or its grant is given back. What it stopped goes on */
	:: d_step { runs(s) && st[s] == waiting && cancels > 0 ->
		cancels--;
		st[s] = idle; until[s] = 0; look[s] = 0; granted[s] = 0; writers[s] = 0;
		if
		:: s < READERS && reads[s] > 0 -> reads[s] = 0; if :: !reading -> handOver(false, NONE) :: else fi
		:: s >= READERS && writer == s -> writer = NONE; ttl = 0; handOver(true, NONE)
		:: else ->
			remove(s);
			stoppedBy(); b = (k == queued); k = 0;
			if :: s >= READERS && reading && b -> letReadersIn(NONE); n = 0 :: else fi;
			b = 0
		fi }
#endif
	od
}

#define due(s) (runs(s) && ((st[s] == waiting && look[s] == 0) || granted[s] || \
	(st[s] == held && (until[s] == 0 || (!fresh[s] && (claim[s] || until[s] < LEASE - 1))))))
#define waits(s) (runs(s) && st[s] == waiting)
#define works(s) (runs(s) && st[s] == held)
#if READERS == 2
#define overlap ((certain(0) && certain(2)) || (certain(1) && certain(2)))
#else
#define overlap ((certain(0) && certain(1)) || (certain(0) && certain(2)) || (certain(1) && certain(2)))
#endif

#define DOWN(x) x = (x > 0 -> x - 1 : 0)

proctype World() {
	do
	:: d_step { !due(0) && !due(1) && !due(2) ->
		if :: (waits(0) || waits(1) || waits(2)) && !works(0) && !works(1) && !works(2) -> waited++ :: else -> waited = 0 fi;
		assert(waited <= PATIENCE);
		DOWN(ttl);
		if :: ttl == 0 -> writer = NONE :: else fi;
		i = 0;
		do
		:: i < SESSIONS ->
			DOWN(reads[i]); DOWN(until[i]); DOWN(look[i]); fresh[i] = 0;
			if :: seen[i] < SILENT -> seen[i]++ :: else fi;
			i++
		:: else -> break
		od;
		i = 0 }
	/* clocks drift */
	:: d_step { ttl == 1 -> writer = NONE; ttl = 0 }
	:: d_step { reads[0] == 1 -> reads[0] = 0 }
#if LOSSES
	:: d_step { losses > 0 && granted[0] -> losses--; granted[0] = 0 }
	:: d_step { losses > 0 && granted[2] -> losses--; granted[2] = 0 }
#endif
#if FREEZES
	:: d_step { freezes > 0 && runs(0) -> freezes--; frozen[0] = 1 }
	:: d_step { freezes > 0 && runs(2) -> freezes--; frozen[2] = 1 }
	:: d_step { frozen[0] -> frozen[0] = 0 }
	:: d_step { frozen[2] -> frozen[2] = 0 }
#endif
#if CRASHES
	:: d_step { crashes > 0 && !dead[0] -> crashes--; dead[0] = 1 }
	:: d_step { crashes > 0 && !dead[2] -> crashes--; dead[2] = 1 }
#endif
	od
}

init {
	atomic {
		i = 0;
		do :: i < SESSIONS -> run Session(i); i++ :: else -> break od;
		i = 0;
		run World()
	}
}

never { do :: assert(!overlap) od }
