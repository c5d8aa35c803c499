/* SPDX-License-Identifier: Apache-2.0
 *
 * Redlock as package redlock does it: acquisition, extension, healing, restart
 * with quarantine, fencing tokens by the strict ballot rule. README.md says what
 * is modelled, and how; run.sh checks every variant.
 */

#ifndef EXTENSIONS
#define EXTENSIONS 1		/* 0 or 1: of each lease */
#endif
#ifndef CRASHES
#define CRASHES 1		/* 0 or 1; the node loses its data */
#endif
#ifndef QUORUM
#define QUORUM 2
#endif

#define NODES	3
#define NONE	2		/* no lease; leases are 0 and 1, one of each client */

#define BIT(n)		(1 << (n))
#define COUNT(s)	(((s) & 1) + (((s) >> 1) & 1) + (((s) >> 2) & 1))
#define MAX(x, y)	((x) > (y) -> (x) : (y))

/* Windows of trust. Each begins when the requests of a round are about to be
   sent, and ends TTL - drift later. */
#define FIRST	1		/* round of acquisition */
#define SECOND	2		/* round of acquisition */
#define THIRD	3		/* extension */

#define IDLE	0
#define HELD	4
#define DONE	5

typedef Lease {
	byte	phase;		/* IDLE, the round whose answers are awaited, HELD, DONE */
	byte	token1;		/* proposed in the first round */
	byte	token;		/* proposed last; then that of the lease */
	byte	seen;		/* the largest floor that an answer told */
	byte	votes;		/* set of nodes whose answer to this round was yes */
	byte	sent;		/* set of windows whose requests have been sent */
	byte	begun;		/* the last window that has begun */
	byte	over;		/* the last window that has ended */
	byte	trusted;	/* the last window that a quorum confirmed */
};

typedef Node {
	byte	owner;		/* has the lock, or had it until the TTL was over */
	byte	window;		/* that of the owner's last request */
	byte	floor;		/* the largest token stored */
	byte	by;		/* the lease it was stored for */
	byte	ended;		/* set of leases that may not have the lock again */
	bool	closed;		/* in quarantine */
	byte	before[2];	/* windows that had begun when it crashed */
};

Lease	lease[2];
Node	node[NODES];
bool	crashed;
byte	lost;			/* the largest token that a crash made forget */
byte	newest;			/* the largest token that a lease was granted with */

#ifdef HOLDERS_ONLY
#define CHECK_TOKEN(x)	skip
#else
#define CHECK_TOKEN(x)	assert(x)
#endif

#define OVER(id, w)	(lease[id].over >= (w))
#define TRUSTS(id)	(lease[id].trusted > lease[id].over)
#define HAS_QUORUM(id)	(COUNT(lease[id].votes) >= QUORUM)

/* The wall clock that proposals follow: greater than all that was forgotten
   before, if clocks of clients agree. */
#ifdef NO_CLOCK
#define CLOCK	1
#else
#define CLOCK	(lost + 1)
#endif

/* The clock is read again for the second round. */
#ifdef OLD_CLOCK
#define CLOCK_AGAIN(id)	lease[id].token1
#else
#define CLOCK_AGAIN(id)	CLOCK
#endif

#ifdef NO_ELAPSED
#define IN_TIME(id, w)	true
#else
#define IN_TIME(id, w)	!OVER(id, w)
#endif

/* Nodes that differ in name only make no different state: keep them in order. */
#define BITS(n)		((lease[0].votes >> n) & 1) + 2 * ((lease[1].votes >> n) & 1)
#define KEY(n)		((node[n].owner + 4 * node[n].by + 16 * node[n].window + 64 * node[n].ended) + 256 * node[n].floor + 2048 * (BITS(n)))
inline order(m, n) {
	if
	:: KEY(m) > KEY(n) ->
		tmp = node[m].owner; node[m].owner = node[n].owner; node[n].owner = tmp;
		tmp = node[m].by; node[m].by = node[n].by; node[n].by = tmp;
		tmp = node[m].window; node[m].window = node[n].window; node[n].window = tmp;
		tmp = node[m].ended; node[m].ended = node[n].ended; node[n].ended = tmp;
		tmp = node[m].floor; node[m].floor = node[n].floor; node[n].floor = tmp;
		tmp = lease[0].votes;
		lease[0].votes = (tmp & ~(BIT(m) | BIT(n))) | (((tmp >> m) & 1) << n) | (((tmp >> n) & 1) << m);
		tmp = lease[1].votes;
		lease[1].votes = (tmp & ~(BIT(m) | BIT(n))) | (((tmp >> m) & 1) << n) | (((tmp >> n) & 1) << m);
		tmp = 0
	:: else
	fi
}
inline sort() {
#if CRASHES
	order(1, 2)
#else
	order(0, 1); order(1, 2); order(0, 1)
#endif
}

/* A quorum has stored the token: the client becomes a holder. */
inline grant(id, w) {
	assert(!TRUSTS(1 - id));		/* one trusted holder at a time */
	CHECK_TOKEN(lease[id].token > newest);	/* tokens grow */
	newest = lease[id].token;
	lease[id].phase = HELD;
	lease[id].votes = 0;
	lease[id].seen = 0;
#ifdef NO_ELAPSED
	lease[id].begun = THIRD;		/* trust counted from the answer */
	lease[id].trusted = THIRD
#else
	lease[id].trusted = w
#endif
}

inline send(id, w) {
	lease[id].phase = w;
	lease[id].begun = w;
	lease[id].sent = lease[id].sent | BIT(w);
	lease[id].votes = 0
}

#define CLIENT(id) \
	:: d_step { lease[id].phase == IDLE && (id == 0 || lease[0].phase != IDLE) -> \
		send(id, FIRST); lease[id].token1 = CLOCK; lease[id].token = CLOCK } \
	:: d_step { lease[id].phase == FIRST && HAS_QUORUM(id) && IN_TIME(id, FIRST) -> \
		grant(id, FIRST); sort() } \
	:: d_step { lease[id].phase == FIRST && !OVER(id, FIRST) && SECOND_ROUND(id) -> \
		send(id, SECOND); lease[id].token = MAX(lease[id].seen + 1, CLOCK_AGAIN(id)); lease[id].seen = 0; sort() } \
	:: d_step { lease[id].phase == SECOND && HAS_QUORUM(id) && IN_TIME(id, SECOND) -> \
		grant(id, SECOND); sort() } \
	:: d_step { EXTENSIONS && lease[id].phase == HELD && lease[id].begun < THIRD && TRUSTS(id) -> \
		send(id, THIRD); sort() } \
	:: d_step { lease[id].phase == THIRD && HAS_QUORUM(id) && EXTENDS(id) -> \
		lease[id].phase = HELD; lease[id].trusted = THIRD; lease[id].votes = 0; sort(); \
		if \
		:: TRUSTS(id) -> assert(!TRUSTS(1 - id)); CHECK_TOKEN(lease[id].token == newest) \
		:: else \
		fi } \
	/* Give up or give back, at any time. */ \
	:: d_step { lease[id].phase != IDLE && lease[id].phase != DONE -> \
		lease[id].phase = DONE; lease[id].trusted = 0; lease[id].votes = 0; lease[id].seen = 0; sort() } \
	/* Time passes. */ \
	:: d_step { lease[id].over < lease[id].begun -> lease[id].over++ }

#ifdef INCR
#define SECOND_ROUND(id) false
#else
#define SECOND_ROUND(id) lease[id].seen > 0
#endif
#ifdef EXTEND_LATE
#define EXTENDS(id) true
#else
#define EXTENDS(id) TRUSTS(id)
#endif
#ifdef SHORT_QUARANTINE
#define OPENS(n) true
#else
#define OPENS(n) (OVER(0, node[n].before[0]) && OVER(1, node[n].before[1]))
#endif

/* The node carries out a request. Requests arrive at any time after they were
   sent, any number of times, or never; the answer is heard at once or never, and
   the client may act on it as late as it likes. */
inline propose(n, id, round, proposed) {
	if :: heard = true :: lease[id].phase == round -> heard = false fi;
	heard = heard && lease[id].phase == round;
	/* A TTL that may be over is, or the node's clock is not there yet. */
	if
	:: node[n].owner != NONE && OVER(node[n].owner, node[n].window) -> node[n].owner = NONE
	:: true
	fi;
	/* So is a quarantine: the longest TTL has passed since the start, and
	   every window that had begun before is over. */
	if
	:: node[n].closed && OPENS(n) -> node[n].closed = false; node[n].before[0] = 0; node[n].before[1] = 0
	:: true
	fi;
	d_step {
		storable = proposed > node[n].floor || (proposed == node[n].floor && node[n].by == id);
		if
		:: node[n].owner == id || (node[n].owner == NONE && !node[n].closed && (round != THIRD || storable)) ->
			node[n].window = (node[n].owner == id -> MAX(node[n].window, round) : round);
			node[n].owner = id;
#ifdef INCR
			if
			:: round == FIRST ->
				node[n].floor++;
				lease[id].token = (heard -> MAX(lease[id].token, node[n].floor) : lease[id].token);
				storable = true
			:: else
			fi;
#else
#ifdef WRITE_BACK_IF_MINE
			storable = storable || round == SECOND;
#endif
			if
			:: storable -> node[n].floor = MAX(proposed, node[n].floor); node[n].by = id
			:: else
			fi;
#endif
			lease[id].votes = lease[id].votes | (heard && (storable || round == THIRD) -> BIT(n) : 0)
		:: else
		fi;
		lease[id].seen = (heard && round == FIRST -> MAX(lease[id].seen, node[n].floor) : lease[id].seen);
		if :: node[n].owner == NONE -> node[n].window = 0 :: else fi;
		heard = false; storable = false;
		sort()
	}
}

#define SERVER(n, id) \
	:: atomic { (lease[id].sent & BIT(FIRST)) && !(node[n].ended & BIT(id)) -> \
		propose(n, id, FIRST, lease[id].token1) } \
	:: atomic { (lease[id].sent & BIT(SECOND)) && !(node[n].ended & BIT(id)) -> \
		propose(n, id, SECOND, lease[id].token) } \
	:: atomic { (lease[id].sent & BIT(THIRD)) && !(node[n].ended & BIT(id)) -> \
		propose(n, id, THIRD, lease[id].token) } \
	/* Release: it ends this lease only, and bars late requests. */ \
	:: d_step { lease[id].phase == DONE && !(node[n].ended & BIT(id)) -> \
		node[n].ended = node[n].ended | BIT(id); \
		if :: MINE(n, id) -> node[n].owner = NONE; node[n].window = 0 :: else fi; sort() }

#ifdef NO_COMPARE
#define MINE(n, id) true
#else
#define MINE(n, id) node[n].owner == id
#endif

active proctype Redlock() {
	bool heard, storable;
	byte tmp;
	d_step {
		node[0].owner = NONE; node[1].owner = NONE; node[2].owner = NONE;
		node[0].by = NONE; node[1].by = NONE; node[2].by = NONE
	}
end:	do
	CLIENT(0)
	CLIENT(1)
	SERVER(0, 0)
	SERVER(1, 0)
	SERVER(2, 0)
	SERVER(0, 1)
	SERVER(1, 1)
	SERVER(2, 1)
	/* Node 0 crashes and comes back empty: which one makes no difference, and
	   one that has nothing forgets nothing. */
	:: d_step { CRASHES && !crashed && node[0].floor > 0 ->
		crashed = true;
		lost = node[0].floor;
		node[0].owner = NONE; node[0].window = 0;
		node[0].floor = 0; node[0].by = NONE;
#ifndef NO_QUARANTINE
		node[0].closed = true;
		node[0].before[0] = lease[0].begun;
		node[0].before[1] = lease[1].begun
#endif
	}
	od
}
