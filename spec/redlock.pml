/* SPDX-License-Identifier: Apache-2.0
 *
 * Redlock as package redlock does it: acquisition, extension, healing, restart
 * with quarantine, fencing tokens by the strict ballot rule, readers and a writer
 * that becomes one. README.md says what is modelled, and how; run.sh checks every
 * variant.
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
#ifndef READERS
#define READERS 0		/* 0: two writers; 1 or 2: and one writer */
#endif
#ifndef READER_QUORUM
#define READER_QUORUM QUORUM
#endif
#ifndef DOWNGRADES
#define DOWNGRADES 1		/* 0 or 1: of the writer, if there are readers */
#endif

#define NODES	3
#define NONE	3		/* no lease; leases are 0, 1 and, with two readers, 2, one of each client */
#if READERS == 2
#define LEASES	3
#else
#define LEASES	2
#endif

#define BIT(n)		(1 << (n))
#define COUNT(s)	(((s) & 1) + (((s) >> 1) & 1) + (((s) >> 2) & 1))
#define MAX(x, y)	((x) > (y) -> (x) : (y))

/* Windows of trust. Each begins when the requests of a round are about to be
   sent, and ends TTL - drift later. */
#define FIRST	1		/* round of acquisition */
#define SECOND	2		/* round of acquisition */
#define THIRD	3		/* extension */

/* Requests: FIRST, SECOND and THIRD, and those to share of a writer that has
   become a reader. */
#define DOWN	4		/* for the time that is left: it opens no window */
#define SHARED	5		/* extension */

#define IDLE	0
#define HELD	4
#define DONE	5

typedef Lease {
	byte	phase;		/* IDLE, the round whose answers are awaited, HELD, DONE */
	byte	token1;		/* proposed in the first round */
	byte	token;		/* proposed last; then that of the lease */
	byte	seen;		/* the largest floor that an answer told */
	byte	votes;		/* set of nodes whose answer to this round was yes */
	byte	sent;		/* set of requests that have been sent */
	byte	begun;		/* the last window that has begun */
	byte	over;		/* the last window that has ended */
	byte	trusted;	/* the last window that a quorum confirmed */
	bool	granted;
#if READERS
	bool	down;		/* the writer has become a reader */
#endif
#if READERS == 2
	byte	known;		/* newest, when this round was sent */
#endif
};

typedef Node {
	byte	owners;		/* set of leases that have a lock, or had it until the TTL was over */
	byte	window[LEASES];	/* that of the owner's last request; 0 if it is none */
	bool	shared;		/* the locks are */
	byte	floor;		/* the largest token stored */
	byte	by;		/* the lease it was stored for */
	byte	stands;		/* the largest token stored that no failed attempt has left */
	byte	before;		/* and before by stored one */
#if READERS
	byte	writer;		/* the largest that stands of those stored for an exclusive lock */
	byte	earlier;	/* and before by stored one */
#endif
	byte	ended;		/* set of leases that may not have the lock again */
	bool	closed;		/* in quarantine */
	byte	windows[LEASES];	/* windows that had begun when it crashed */
};

Lease	lease[LEASES];
Node	node[NODES];
bool	crashed;
byte	lost;			/* the largest token that a crash made forget */
byte	newest;			/* the largest token that a lease was granted with */
byte	written;		/* the same of exclusive leases */

#ifdef HOLDERS_ONLY
#define CHECK_TOKEN(x)	skip
#else
#define CHECK_TOKEN(x)	assert(x)
#endif

#define OVER(id, w)	(lease[id].over >= (w))
#define TRUSTS(id)	(lease[id].trusted > lease[id].over)
#define HAS_QUORUM(id)	(COUNT(lease[id].votes) >= (READS(id) -> READER_QUORUM : QUORUM))

#if READERS
#define READS(id)	(id > 0 || lease[0].down)
#define BEGINS(id)	(id < 2 || lease[1].phase != IDLE)
#else
#define READS(id)	false
#define BEGINS(id)	(id == 0 || lease[0].phase != IDLE)
#endif

/* The holder counts as a reader before any node does. */
#ifdef DOWNGRADE_LATE
#define WRITES(id)	(id == 0 && !(lease[0].down && HAS_QUORUM(0)))
#else
#define WRITES(id)	(!READS(id))
#endif

/* One trusted holder at a time, or readers only. */
#if READERS == 2
#define ALONE	(!(TRUSTS(0) && WRITES(0) && (TRUSTS(1) || TRUSTS(2))))
#elif READERS == 1
#define ALONE	(!(TRUSTS(0) && WRITES(0) && TRUSTS(1)))
#else
#define ALONE	(!(TRUSTS(0) && TRUSTS(1)))
#endif

/* What tokens promise. A grant's is greater than those of all grants before it; but
   of readers that ask at the same time either may have the greater one. Since a
   lease was granted no writer was, nor a reader beside a writer. */
#if READERS == 2
#define GREATER(id)	(lease[id].token > (READS(id) -> MAX(lease[id].known, written) : newest))
#else
#define GREATER(id)	(lease[id].token > newest)
#endif
#define STANDS(id)	(READS(id) -> written <= lease[id].token : lease[id].token == newest)

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
#define VOTE(id, n)	((lease[id].votes >> n) & 1)
#if LEASES == 3
#define VOTES(n)	(VOTE(0, n) + 2 * VOTE(1, n) + 4 * VOTE(2, n))
#define WINDOWS(n)	(node[n].window[0] + 4 * node[n].window[1] + 16 * node[n].window[2])
#else
#define VOTES(n)	(VOTE(0, n) + 2 * VOTE(1, n))
#define WINDOWS(n)	(node[n].window[0] + 4 * node[n].window[1])
#endif
#define LOCKS(n)	(node[n].owners + 8 * node[n].shared + 16 * node[n].by + 64 * WINDOWS(n) + 4096 * node[n].ended)
#if READERS
#define WRITER(n)	(node[n].writer + node[n].earlier)
#else
#define WRITER(n)	0
#endif
#define KEY(n)		(LOCKS(n) + 32768 * (node[n].floor + 16 * node[n].stands + 256 * VOTES(n) + 2048 * (node[n].before + WRITER(n))))
#define SWAP(m, n, field)	tmp = node[m].field; node[m].field = node[n].field; node[n].field = tmp
#define SWAP_VOTES(m, n, id)	tmp = lease[id].votes; \
	lease[id].votes = (tmp & ~(BIT(m) | BIT(n))) | (((tmp >> m) & 1) << n) | (((tmp >> n) & 1) << m)
#if READERS
#define SWAP_WRITER(m, n)	SWAP(m, n, writer); SWAP(m, n, earlier)
#else
#define SWAP_WRITER(m, n)	skip
#endif
inline order(m, n) {
	if
	:: KEY(m) > KEY(n) ->
		SWAP(m, n, owners);
		SWAP(m, n, by);
		SWAP(m, n, window[0]);
		SWAP(m, n, window[1]);
		SWAP(m, n, shared);
		SWAP(m, n, ended);
		SWAP(m, n, floor);
		SWAP(m, n, stands);
		SWAP(m, n, before);
		SWAP_WRITER(m, n);
		SWAP_VOTES(m, n, 0);
		SWAP_VOTES(m, n, 1);
#if LEASES == 3
		SWAP(m, n, window[2]);
		SWAP_VOTES(m, n, 2);
#endif
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
#ifdef NO_ELAPSED
	lease[id].begun = THIRD;		/* trust counted from the answer */
	lease[id].trusted = THIRD;
#else
	lease[id].trusted = w;
#endif
	lease[id].granted = true;
	assert(ALONE);
	CHECK_TOKEN(GREATER(id));
	newest = MAX(newest, lease[id].token);
	if :: !READS(id) -> written = lease[id].token :: else fi;
	lease[id].phase = HELD;
	lease[id].votes = 0;
	lease[id].seen = 0
}

inline send(id, w, request) {
	lease[id].phase = w;
	lease[id].begun = w;
	lease[id].sent = lease[id].sent | BIT(request);
	lease[id].votes = 0;
#if READERS == 2
	lease[id].known = newest
#endif
}

#define CLIENT(id) \
	:: d_step { lease[id].phase == IDLE && BEGINS(id) -> \
		send(id, FIRST, FIRST); lease[id].token1 = CLOCK; lease[id].token = CLOCK } \
	:: d_step { lease[id].phase == FIRST && HAS_QUORUM(id) && IN_TIME(id, FIRST) -> \
		grant(id, FIRST); sort() } \
	:: d_step { lease[id].phase == FIRST && !OVER(id, FIRST) && SECOND_ROUND(id) -> \
		send(id, SECOND, SECOND); lease[id].token = MAX(lease[id].seen + 1, CLOCK_AGAIN(id)); lease[id].seen = 0; sort() } \
	:: d_step { lease[id].phase == SECOND && HAS_QUORUM(id) && IN_TIME(id, SECOND) -> \
		grant(id, SECOND); sort() } \
	:: d_step { EXTENSIONS && lease[id].phase == HELD && lease[id].begun < THIRD && TRUSTS(id) -> \
		send(id, THIRD, THIRD + 2 * (id == 0 && READS(0))); sort() } \
	:: d_step { lease[id].phase == THIRD && HAS_QUORUM(id) && EXTENDS(id) -> \
		lease[id].phase = HELD; lease[id].trusted = THIRD; lease[id].votes = 0; sort(); \
		if \
		:: TRUSTS(id) -> assert(ALONE); CHECK_TOKEN(STANDS(id)) \
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
#elif LEASES == 3
#define OPENS(n) (OVER(0, node[n].windows[0]) && OVER(1, node[n].windows[1]) && OVER(2, node[n].windows[2]))
#else
#define OPENS(n) (OVER(0, node[n].windows[0]) && OVER(1, node[n].windows[1]))
#endif
#if LEASES == 3
#define FORGET_BEFORE(n) node[n].windows[0] = 0; node[n].windows[1] = 0; node[n].windows[2] = 0
#else
#define FORGET_BEFORE(n) node[n].windows[0] = 0; node[n].windows[1] = 0
#endif

/* A TTL that may be over is, or the node's clock is not there yet. */
#define MAY_EXPIRE(n, id)	((node[n].owners & BIT(id)) && OVER(id, node[n].window[id]))

inline tidy(n) {
	if :: !(node[n].owners & BIT(0)) -> node[n].window[0] = 0 :: else fi;
	if :: !(node[n].owners & BIT(1)) -> node[n].window[1] = 0 :: else fi;
#if LEASES == 3
	if :: !(node[n].owners & BIT(2)) -> node[n].window[2] = 0 :: else fi;
#endif
	if :: node[n].owners == 0 -> node[n].shared = false :: else fi
}

#define HAS(n, id)	((node[n].owners & BIT(id)) != 0)

/* To be taken is a free name's lock, and a shared one beside other shared ones. */
#ifdef READER_BESIDE_WRITER
#define FREE(n, share)	(node[n].owners == 0 || share)
#else
#define FREE(n, share)	(node[n].owners == 0 || (share && node[n].shared))
#endif

/* A token can be stored if it is greater than all that were. */
#define STRICTLY(n, id, proposed)	(proposed > node[n].floor || (proposed == node[n].floor && node[n].by == id))
#if defined(READER_EQUAL)
#define STORABLE(n, id, proposed, share)	(STRICTLY(n, id, proposed) || (share && proposed == node[n].floor))
#elif defined(WRITERS_FLOOR_ONLY)
#define STORABLE(n, id, proposed, share)	(STRICTLY(n, id, proposed) || (!share && proposed > node[n].writer))
#else
#define STORABLE(n, id, proposed, share)	STRICTLY(n, id, proposed)
#endif

/* A lease is healed where no other was granted a greater token, as far as the node can
   know; a reader also beside readers with greater ones, but not after a writer. */
#if READERS
#define NOT_OVERTAKEN(n, proposed, share)	(proposed >= (share -> node[n].writer : node[n].stands))
#else
#define NOT_OVERTAKEN(n, proposed, share)	(proposed >= node[n].stands)
#endif

/* What an attempt has left that failed keeps nobody from being healed. */
#ifdef FAILED_FLOORS_STAND
#define FAILED(id)	false
#else
#define FAILED(id)	(!lease[id].granted)
#endif
#define HEALS(n, id, proposed, share)	(HAS(n, id) || NOT_OVERTAKEN(n, proposed, share) || \
	!(FREE(n, share) && !node[n].closed) || newest > proposed || !(node[n].ended & BIT(node[n].by)))
#ifdef CHECK_HEALING
#define CHECK_HEALS(n, id, proposed, share)	if :: request >= THIRD -> assert(HEALS(n, id, proposed, share)) :: else fi
#else
#define CHECK_HEALS(n, id, proposed, share)	skip
#endif

#if READERS
#define STORE_WRITER(n, id, proposed, share) \
	if :: node[n].by != id || share -> node[n].earlier = node[n].writer :: else fi; \
	node[n].writer = (share -> node[n].writer : MAX(proposed, node[n].writer))
#define FAIL_WRITER(n)	node[n].writer = node[n].earlier
#else
#define STORE_WRITER(n, id, proposed, share)	skip
#define FAIL_WRITER(n)	skip
#endif

/* What a request says: the window that it is for, whether it is to share, whether the
   client that sent it still waits for its answer. */
#if READERS && DOWNGRADES
#define LEFT	((lease[0].sent & BIT(THIRD)) -> THIRD : ((lease[0].sent & BIT(SECOND)) -> SECOND : FIRST))
#else
#define LEFT	FIRST
#endif
#if READERS
#define SHARES	(id > 0 || request >= DOWN)
#else
#define SHARES	false
#endif
#define ROUND	(request == DOWN -> LEFT : (request == SHARED -> THIRD : request))
#ifdef DOWNGRADE_LATE
#define HEARABLE	(lease[id].phase == ROUND || (request == DOWN && lease[id].phase == HELD))
#else
#define HEARABLE	(lease[id].phase == ROUND && request != DOWN)
#endif

/* The node carries out a request. Requests arrive at any time after they were
   sent, any number of times, or never; the answer is heard at once or never, and
   the client may act on it as late as it likes. One copy does for all of them, which
   halves what gcc takes. */
inline propose() {
	if
	:: heard = false
	:: d_step { HEARABLE -> heard = true }
	fi;
	if
	:: skip
	:: d_step { MAY_EXPIRE(n, 0) -> node[n].owners = node[n].owners & ~BIT(0) }
	:: d_step { MAY_EXPIRE(n, 1) -> node[n].owners = node[n].owners & ~BIT(1) }
	:: d_step { MAY_EXPIRE(n, 0) && MAY_EXPIRE(n, 1) -> node[n].owners = node[n].owners & ~(BIT(0) | BIT(1)) }
	fi;
#if LEASES == 3
	if
	:: skip
	:: d_step { MAY_EXPIRE(n, 2) -> node[n].owners = node[n].owners & ~BIT(2) }
	fi;
#endif
#if CRASHES
	/* So is a quarantine: the longest TTL has passed since the start, and
	   every window that had begun before is over. */
	if
	:: skip
	:: d_step { node[n].closed && OPENS(n) -> node[n].closed = false; FORGET_BEFORE(n) }
	fi;
#endif
	d_step {
		round = ROUND;
		share = SHARES;
		proposed = (request == FIRST -> lease[id].token1 : lease[id].token);
		tidy(n);
		storable = STORABLE(n, id, proposed, share);
		CHECK_HEALS(n, id, proposed, share);
		if
		:: HAS(n, id) || (FREE(n, share) && !node[n].closed && (request < THIRD || NOT_OVERTAKEN(n, proposed, share))) ->
			node[n].shared = (HAS(n, id) && node[n].shared) || share;
			node[n].window[id] = MAX(node[n].window[id], round);
			node[n].owners = node[n].owners | BIT(id);
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
			:: storable ->
				STORE_WRITER(n, id, proposed, share);
				if :: node[n].by != id -> node[n].before = node[n].stands :: else fi;
				node[n].floor = MAX(proposed, node[n].floor);
				node[n].stands = node[n].floor;
				node[n].by = id
			:: else
			fi;
#endif
			lease[id].votes = lease[id].votes | (heard && (storable || request >= THIRD) -> BIT(n) : 0)
		:: else
		fi;
		lease[id].seen = (heard && request == FIRST -> MAX(lease[id].seen, node[n].floor) : lease[id].seen);
		heard = false; storable = false; share = false;
		n = 0; id = 0; request = 0; round = 0; proposed = 0;
		sort()
	}
}

#define ARRIVES(n, id, request)	(lease[id].sent & BIT(request)) && !(node[n].ended & BIT(id))

#define REQUEST(N, ID, R)	:: d_step { ARRIVES(N, ID, R) -> n = N; id = ID; request = R }
#define REQUESTS(ID, R)	REQUEST(0, ID, R) REQUEST(1, ID, R) REQUEST(2, ID, R)

#define SERVER(n, id) \
	/* Release: it ends this lease only, and bars late requests. */ \
	:: d_step { lease[id].phase == DONE && !(node[n].ended & BIT(id)) -> \
		node[n].ended = node[n].ended | BIT(id); \
		if :: FAILED(id) && node[n].by == id -> node[n].stands = node[n].before; FAIL_WRITER(n) :: else fi; \
		if :: MINE(n, id) -> node[n].owners = node[n].owners & ~BIT(id); tidy(n) :: else fi; sort() }

/* A writer that has become a reader: every proposal is one to share from then on. */
#if READERS && DOWNGRADES
#define DOWNGRADE \
	:: d_step { lease[0].phase == HELD && !lease[0].down && TRUSTS(0) -> \
		lease[0].down = true; lease[0].sent = lease[0].sent | BIT(DOWN) }
#define SHARING	REQUESTS(0, DOWN) REQUESTS(0, SHARED)
#else
#define DOWNGRADE
#define SHARING
#endif

#ifdef NO_COMPARE
#define MINE(n, id) true
#else
#define MINE(n, id) HAS(n, id)
#endif

active proctype Redlock() {
	bool heard, storable, share;
	byte tmp, n, id, request, round, proposed;
	d_step {
		node[0].by = NONE; node[1].by = NONE; node[2].by = NONE
	}
end:	do
	CLIENT(0)
	CLIENT(1)
	DOWNGRADE
	:: atomic {
		if
		REQUESTS(0, FIRST)
		REQUESTS(0, SECOND)
		REQUESTS(0, THIRD)
		SHARING
		REQUESTS(1, FIRST)
		REQUESTS(1, SECOND)
		REQUESTS(1, THIRD)
#if LEASES == 3
		REQUESTS(2, FIRST)
		REQUESTS(2, SECOND)
		REQUESTS(2, THIRD)
#endif
		fi;
		propose()
	}
	SERVER(0, 0)
	SERVER(1, 0)
	SERVER(2, 0)
	SERVER(0, 1)
	SERVER(1, 1)
	SERVER(2, 1)
#if LEASES == 3
	CLIENT(2)
	SERVER(0, 2)
	SERVER(1, 2)
	SERVER(2, 2)
#endif
	/* Node 0 crashes and comes back empty: which one makes no difference, and
	   one that has nothing forgets nothing. */
	:: d_step { CRASHES && !crashed && node[0].floor > 0 ->
		crashed = true;
		lost = node[0].floor;
		node[0].owners = 0; tidy(0);
		node[0].floor = 0; node[0].by = NONE; node[0].stands = 0; node[0].before = 0;
#if READERS
		node[0].writer = 0; node[0].earlier = 0;
#endif
#ifndef NO_QUARANTINE
		node[0].closed = true;
		node[0].windows[0] = lease[0].begun;
		node[0].windows[1] = lease[1].begun;
#if LEASES == 3
		node[0].windows[2] = lease[2].begun
#endif
#endif
	}
	od
}
