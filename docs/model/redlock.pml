/*
 * A Redlock over three servers, and its tokens. After a majority has granted the lock, T is the largest of their
 * tokens. It is written to a majority of the servers where the hold is, by a script that finds it there; then the
 * lock is held.
 * Requests to different servers are executed in any order, or not at all. The servers' clocks have nothing in
 * common: each issues the next number after the last one it knows, and they begin far apart.
 */

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2           /* of each client; each has its hold id */
#endif
#ifndef FREEZES
#define FREEZES 0
#endif
#ifndef DOWNS
#define DOWNS 0            /* a server that does not answer any more */
#endif
#ifndef WIPES
#define WIPES 0            /* a server that loses its data. Tokens are not promised to grow then: spin finds it */
#endif

#define LEASE 3
#define P(c, n) ((c) * 3 + (n))
#define ID(c) ((c) * ROUNDS + round[c] + 1)   /* 0: nobody */

/* ---- servers */
byte hold[3], ttl[3], fence[3];
bit down[3];

/* ---- clients */
mtype = {idle, asking, raising, held, over};
mtype st[CLIENTS] = idle;
byte round[CLIENTS];
byte share[CLIENTS * 3];    /* what the client holds on each server is valid for so long; 0: no share */
bit asked[CLIENTS * 3], confirmed[CLIENTS * 3];
byte age[CLIENTS];         /* what a lease would have left that began with the round */
byte top[CLIENTS];         /* T */
bit frozen[CLIENTS];
bit fresh[CLIENTS];
byte freezes = FREEZES, downs = DOWNS, wipes = WIPES;

byte best;                 /* the largest token of a hold so far */
byte n;

#define shares(c) ((share[P(c, 0)] > 0) + (share[P(c, 1)] > 0) + (share[P(c, 2)] > 0))
#define confirms(c) (confirmed[P(c, 0)] + confirmed[P(c, 1)] + confirmed[P(c, 2)])
#define valid(c) (st[c] == held && shares(c) >= 2)

#ifdef BUG_ONE
#define ENOUGH 1
#elif defined(BUG_NORAISE)
#define ENOUGH 0
#else
#define ENOUGH 2
#endif

inline drop(c) { /* hold.drop; what a server does not hear of expires */
	n = 0;
	do
	:: n < 3 ->
		if :: hold[n] == ID(c) && !down[n] -> hold[n] = 0; ttl[n] = 0 :: else fi;
		share[P(c, n)] = 0; asked[P(c, n)] = 0; confirmed[P(c, n)] = 0;
		n++
	:: else -> break
	od;
	n = 0; age[c] = 0; top[c] = 0; st[c] = idle; round[c]++;
	if :: round[c] == ROUNDS -> st[c] = over; round[c] = 0 :: else fi
}

/* mutex_acquire.lua on one server. A client that is frozen then reads the reply later */
#define ASK(n) \
	:: d_step { !frozen[c] && st[c] == asking && !asked[P(c, n)] && !down[n] && age[c] > 0 -> \
		asked[P(c, n)] = 1; \
		if \
		:: hold[n] == 0 -> \
			hold[n] = ID(c); ttl[n] = LEASE; fence[n]++; share[P(c, n)] = age[c]; \
			if :: fence[n] > top[c] -> top[c] = fence[n] :: else fi \
		:: else \
		fi }

/* raise.lua, which raises the fence where it finds the hold */
#define RAISE(n) \
	:: d_step { !frozen[c] && st[c] == raising && share[P(c, n)] > 0 && !confirmed[P(c, n)] && !down[n] -> \
		if \
		:: hold[n] == ID(c) -> if :: fence[n] < top[c] -> fence[n] = top[c] :: else fi; confirmed[P(c, n)] = 1 \
		:: else -> share[P(c, n)] = 0 \
		fi }

/* hold.repairParts: a share that is missing is asked for again, and gets the token */
#define REPAIR(n) \
	:: d_step { !frozen[c] && valid(c) && share[P(c, n)] == 0 && !down[n] && hold[n] == 0 -> \
		hold[n] = ID(c); ttl[n] = LEASE; share[P(c, n)] = LEASE - 1; \
		if :: fence[n] + 1 < top[c] -> fence[n] = top[c] :: else -> fence[n]++ fi }

#define RENEW(n) \
	if \
	:: share[P(c, n)] > 0 && !down[n] && hold[n] == ID(c) -> ttl[n] = LEASE; share[P(c, n)] = LEASE - 1 \
	:: share[P(c, n)] > 0 && !down[n] && hold[n] != ID(c) -> share[P(c, n)] = 0 \
	:: else \
	fi

proctype Client(byte c) {
	do
	/* Redlock.round */
	:: d_step { !frozen[c] && st[c] == idle -> st[c] = asking; age[c] = LEASE - 1 }
	ASK(0)
	ASK(1)
	ASK(2)
	:: d_step { !frozen[c] && st[c] == asking && shares(c) >= 2 -> st[c] = raising }
	:: d_step { !frozen[c] && st[c] == asking -> drop(c) }
	RAISE(0)
	RAISE(1)
	RAISE(2)
#ifdef BUG_LATE
	:: d_step { !frozen[c] && st[c] == raising && confirms(c) >= ENOUGH ->
#else
	:: d_step { !frozen[c] && st[c] == raising && confirms(c) >= ENOUGH && shares(c) >= 2 && age[c] > 0 ->
#endif
		st[c] = held;
		assert(top[c] > best);
		best = top[c] }
	:: d_step { !frozen[c] && st[c] == raising -> drop(c) }
	REPAIR(0)
	REPAIR(1)
	REPAIR(2)
	:: d_step { !frozen[c] && st[c] == held && !fresh[c] && shares(c) >= 2 ->
		fresh[c] = 1;
		RENEW(0); RENEW(1); RENEW(2) }
	/* Unlock, or the loss of a majority */
	:: d_step { !frozen[c] && st[c] == held -> drop(c) }
	od
}

#define due(c) (!frozen[c] && (st[c] == asking || st[c] == raising || (st[c] == held && (!fresh[c] || shares(c) < 2))))
#if CLIENTS == 2
#define anyDue (due(0) || due(1))
#define overlap (valid(0) && valid(1))
#else
#define anyDue (due(0) || due(1) || due(2))
#define overlap ((valid(0) && valid(1)) || (valid(0) && valid(2)) || (valid(1) && valid(2)))
#endif

#define DOWN(x) x = (x > 0 -> x - 1 : 0)

proctype World() {
	do
	:: d_step { !anyDue ->
		n = 0;
		do
		:: n < 3 -> DOWN(ttl[n]); if :: ttl[n] == 0 -> hold[n] = 0 :: else fi; n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < CLIENTS * 3 -> DOWN(share[n]); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < CLIENTS -> DOWN(age[n]); fresh[n] = 0; n++
		:: else -> break
		od;
		n = 0 }
	/* clocks drift */
	:: d_step { ttl[0] == 1 -> ttl[0] = 0; hold[0] = 0 }
	:: d_step { ttl[2] == 1 -> ttl[2] = 0; hold[2] = 0 }
#if FREEZES
	:: d_step { freezes > 0 && !frozen[0] -> freezes--; frozen[0] = 1 }
	:: d_step { frozen[0] -> frozen[0] = 0 }
#endif
#if DOWNS
	:: d_step { downs > 0 && !down[1] -> downs--; down[1] = 1 }
	:: d_step { downs > 0 && !down[2] -> downs--; down[2] = 1 }
#endif
#if WIPES
	:: d_step { wipes > 0 -> wipes--; hold[2] = 0; ttl[2] = 0; fence[2] = 6 }
	:: d_step { wipes > 0 -> wipes--; hold[1] = 0; ttl[1] = 0; fence[1] = 3 }
#endif
	od
}

init {
	atomic {
		fence[1] = 3; fence[2] = 6;
		run Client(0);
		run Client(1);
#if CLIENTS > 2
		run Client(2);
#endif
		run World()
	}
}

never { do :: assert(!overlap) od }
