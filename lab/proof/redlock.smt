; SPDX-License-Identifier: Apache-2.0
;
; Redlock as package redlock does it, as formulas: for any number of nodes,
; leases, rounds, extensions and restarts. ../README.md explains the notation and
; every clause in words. `go run ./lab/proof` checks the formulas with solvers.

(sort Node) (sort Lease) (sort Round) (sort Quorum)

; ---- What never changes

(fixed member (Node Quorum) Bool)
(fixed owner (Round) Lease)
(fixed token (Round) Int)               ; the token that the round proposes
(fixed extends (Round) Bool)            ; the round is a renewal; otherwise it asks for a new lease
(fixed reads (Lease) Bool)              ; the lease is shared; otherwise it is exclusive
(fixed kept (Lease) Bool)               ; the locks that a restart leaves
(fixed loses (Round) Bool)              ; the votes that a restart loses; both differ for each restart

(assume tokens-begin-at-1 (forall ((r Round)) (> (token r) 0)))

; ---- Clients, and time

(state sent (Round) Bool false)         ; its window has begun; its requests may arrive from now on
(state over (Round) Bool false)         ; its window has ended: TTL - drift after it began
(state trusted (Round) Bool false)      ; a quorum has confirmed it in time
(state yes (Round) Quorum)              ; the quorum that confirmed it
(state released (Lease) Bool false)     ; its client no longer relies on it, or gave up the attempt
(state granted (Lease) Bool false)
(state gtoken (Lease) Int)              ; the token with which it was granted
(state by-round (Lease) Round)          ; the round that granted it
(state newest () Int 0)                 ; the largest token of all grants
(state written () Int 0)                ; the largest token of all grants to writers

; ---- Nodes

(state has (Node Lease) Bool false)     ; the lock is there
(state alone (Node) Bool false)         ; the node's lock is exclusive; otherwise there may be several
(state keeps (Node Round) Bool false)   ; the lock stays until the window of this round is over
(state voted (Node Round) Bool false)   ; the node has said yes to the round, at some time
(state ended (Node Lease) Bool false)   ; late requests of the lease are refused
(state floor (Node) Int 0)              ; the largest token stored
(state by (Node) Lease)                 ; the lease of that token
(state stands (Node) Int 0)             ; the largest token that was not left by a failed attempt
(state before (Node) Int 0)             ; the value of stands before that lease
(state writer (Node) Int 0)             ; the same as stands, for exclusive locks only
(state earlier (Node) Int 0)            ; the value of writer before that lease
(state closed (Node) Bool false)        ; in quarantine
(state early (Node Round) Bool false)   ; the round had begun when the node last lost data
(state forgot (Node Round) Bool false)  ; the node said yes, and has lost the token since

; ---- Words

(define shares ((r Round)) (reads (owner r)))
(define usable ((r Round)) (and (not (over r)) (not (released (owner r)))))
(define live ((r Round)) (and (trusted r) (usable r)))
(define stores ((n Node) (r Round))
  (or (> (token r) (floor n)) (and (= (token r) (floor n)) (= (by n) (owner r)))))
(define free ((n Node) (r Round))
  (or (has n (owner r)) (forall ((l Lease)) (not (has n l))) (and (shares r) (not (alone n)))))
(define pending ((r Round)) (and (sent r) (not (extends r)) (usable r) (not (granted (owner r)))))
; An assumption: a round that is carried out in time has a greater token than any token that
; the node has forgotten. This follows from the assumptions about clocks in time.smt.
(define clocks-agree ((n Node) (r Round)) (=> (pending r) (forall ((u Round)) (=> (and (forgot n u) (not (extends u)))
  (or (> (token r) (token u)) (= (owner r) (owner u)) (and (shares r) (shares u)))))))
(define meet ((p Quorum) (q Quorum)) (exists ((n Node)) (and (member n p) (member n q))))
; An assumption: quorums of rounds meet. While all clients have the same set of nodes, this follows from counting.
; When the nodes were changed, the change has waited until the rounds of the old nodes are over,
; and the clocks promise that a later round has a greater token.
(define sets-agree ((r Round) (q Quorum)) (forall ((u Round)) (=> (trusted u) (or (meet q (yes u)) (and (over u)
  (or (extends r) (extends u) (> (token r) (token u)) (and (shares r) (shares u))))))))
(define both-read ((r Round) (u Round)) (and (reads (owner r)) (reads (owner u))))

; ---- What may happen

(action send ((r Round))
  (when once (not (sent r)))
  (when new (=> (not (extends r)) (not (granted (owner r)))))
  (when own-token (=> (extends r) (and (granted (owner r)) (= (token r) (gtoken (owner r))))))
  (set (sent r) true))

(action pass-time ((r Round))
  (when begun (sent r))
  (set (over r) true))

(action take ((n Node) (r Round))
  (when sent (sent r))
  (when asks (not (extends r)))
  (when not-ended (not (ended n (owner r))))
  (when open (or (has n (owner r)) (not (closed n))))
  (when clock (clocks-agree n r))
  (when free (free n r))
  (set (alone n) (not (shares r)))
  (set (has n (owner r)) true)
  (set (keeps n r) true)
  (set (voted n r) (or (voted n r) (stores n r)))
  (set (floor n) (ite (stores n r) (token r) (floor n)))
  (set (before n) (ite (and (stores n r) (not (= (by n) (owner r)))) (stands n) (before n)))
  (set (stands n) (ite (stores n r) (token r) (stands n)))
  (set (earlier n) (ite (and (stores n r) (not (= (by n) (owner r)))) (writer n) (earlier n)))
  (set (writer n) (ite (and (stores n r) (not (shares r))) (token r) (writer n)))
  (set (by n) (ite (stores n r) (owner r) (by n))))

(action heal ((n Node) (r Round))
  (when sent (sent r))
  (when extends (extends r))
  (when not-ended (not (ended n (owner r))))
  (when open (or (has n (owner r)) (not (closed n))))
  (when free (free n r))
  (when not-overtaken (or (has n (owner r)) (>= (token r) (ite (shares r) (writer n) (stands n)))))
  (set (alone n) (not (shares r)))
  (set (has n (owner r)) true)
  (set (keeps n r) true)
  (set (voted n r) true)
  (set (floor n) (ite (stores n r) (token r) (floor n)))
  (set (before n) (ite (and (stores n r) (not (= (by n) (owner r)))) (stands n) (before n)))
  (set (stands n) (ite (stores n r) (token r) (stands n)))
  (set (earlier n) (ite (and (stores n r) (not (= (by n) (owner r)))) (writer n) (earlier n)))
  (set (writer n) (ite (and (stores n r) (not (shares r))) (token r) (writer n)))
  (set (by n) (ite (stores n r) (owner r) (by n))))

(action grant ((r Round) (q Quorum))
  (when sent (sent r))
  (when asks (not (extends r)))
  (when in-time (not (over r)))
  (when wanted (not (released (owner r))))
  (when once (not (granted (owner r))))
  (when quorum (forall ((n Node)) (=> (member n q) (voted n r))))
  (when sets (sets-agree r q))
  (set (trusted r) true)
  (set (yes r) q)
  (set (granted (owner r)) true)
  (set (gtoken (owner r)) (token r))
  (set (by-round (owner r)) r)
  (set newest (ite (> (token r) newest) (token r) newest))
  (set written (ite (and (not (shares r)) (> (token r) written)) (token r) written)))

(action extend ((r Round) (q Quorum))
  (when sent (sent r))
  (when extends (extends r))
  (when in-time (not (over r)))
  (when wanted (not (released (owner r))))
  (when once (not (trusted r)))
  (when quorum (forall ((n Node)) (=> (member n q) (voted n r))))
  (when sets (sets-agree r q))
  (when still-trusted (exists ((u Round)) (and (= (owner u) (owner r)) (live u))))
  (set (trusted r) true)
  (set (yes r) q))

(action let-go ((l Lease))
  (set (released l) true))

(action end ((n Node) (l Lease) (bar Bool))
  (when released (released l))
  (each (has m k) (and (has m k) (not (and (= m n) (= k l)))))
  (each (keeps m r) (and (keeps m r) (not (and (= m n) (= (owner r) l)))))
  (set (ended n l) (or (ended n l) bar))
  (set (stands n) (ite (and (= (by n) l) (not (granted l))) (before n) (stands n)))
  (set (writer n) (ite (and (= (by n) l) (not (granted l))) (earlier n) (writer n))))

; A node ends one lease and carries out a proposal of the next lease in one step: for Pass, and
; for the hand-off to a waiter that the node knows.
(action hand-over ((n Node) (l Lease) (r Round))
  (when released (released l))
  (when held (and (has n l) (alone n)))
  (when exclusive (not (shares r)))
  (when sent (sent r))
  (when asks (not (extends r)))
  (when not-ended (not (ended n (owner r))))
  (when open (not (closed n)))
  (when clock (clocks-agree n r))
  (when another (not (= l (owner r))))
  (each (has m k) (ite (= m n) (= k (owner r)) (has m k)))
  (each (keeps m u) (or (and (keeps m u) (not (and (= m n) (= (owner u) l)))) (and (= m n) (= u r))))
  (set (voted n r) (or (voted n r) (stores n r)))
  (set (floor n) (ite (stores n r) (token r) (floor n)))
  (set (before n) (ite (and (stores n r) (not (= (by n) (owner r)))) (stands n) (before n)))
  (set (stands n) (ite (stores n r) (token r) (stands n)))
  (set (earlier n) (ite (and (stores n r) (not (= (by n) (owner r)))) (writer n) (earlier n)))
  (set (writer n) (ite (and (stores n r) (not (shares r))) (token r) (writer n)))
  (set (by n) (ite (stores n r) (owner r) (by n))))

(action expire ((n Node) (l Lease))
  (when windows-over (forall ((r Round)) (=> (and (keeps n r) (= (owner r) l)) (over r))))
  (set (has n l) false)
  (each (keeps m r) (and (keeps m r) (not (and (= m n) (= (owner r) l))))))

; A restart loses everything, or the latest writes. Locks may be left, with any TTL: locks that
; the node had, or had once and that have been released. If a lock is left, the floor that its lease found
; is left too.
(action restart ((n Node) (single Bool) (f Int) (b Lease) (s Int) (c Int) (w Int) (e Int))
  (when no-stranger (forall ((l Lease)) (=> (kept l) (or (has n l) (released l)))))
  (when one-kind (forall ((l Lease) (k Lease)) (=> (kept l)
    (and (=> single (or (= l k) (not (kept k)))) (or single (reads l))))))
  (when floor-with-lock (forall ((r Round) (l Lease))
    (=> (and (voted n r) (not (extends r)) (loses r) (kept l) (not (released l)))
        (or (granted l) (= (owner r) l) (and (shares r) (reads l))))))
  (when floor-left (forall ((r Round))
    (=> (and (voted n r) (not (extends r)) (not (forgot n r)) (not (loses r)))
        (and (<= (token r) f) (=> (= (token r) f) (= b (owner r)))))))
  (each (has m l) (ite (= m n) (kept l) (has m l)))
  (set (alone n) single)
  (each (keeps m r) (and (keeps m r) (not (= m n))))
  (each (ended m l) (and (ended m l) (not (= m n))))
  (each (early m r) (ite (= m n) (sent r) (early m r)))
  (each (forgot m r) (or (forgot m r) (and (= m n) (voted m r) (loses r))))
  (set (floor n) f) (set (by n) b) (set (stands n) s) (set (before n) c) (set (writer n) w) (set (earlier n) e)
  (set (closed n) true))

(action reopen ((n Node))
  (when closed (closed n))
  (when windows-over (forall ((r Round)) (=> (early n r) (over r))))
  (set (closed n) false))

; A node remembers a floor for a day. That is longer than any window, and longer than clocks may
; disagree, so clocks-agree stays true.
(action age ((n Node))
  (when long-ago (forall ((r Round)) (=> (voted n r) (over r))))
  (each (forgot m r) (or (forgot m r) (and (= m n) (voted m r))))
  (set (floor n) 0) (set (stands n) 0) (set (before n) 0) (set (writer n) 0) (set (earlier n) 0))

; ---- What is always true

(invariant in-order (forall ((n Node) (r Round))
  (and (=> (voted n r) (sent r)) (=> (trusted r) (sent r)) (=> (over r) (sent r)) (=> (early n r) (sent r)) (=> (forgot n r) (voted n r))
       (=> (keeps n r) (and (sent r) (has n (owner r)))))))
(invariant one-exclusive-lock (forall ((n Node) (l Lease) (k Lease))
  (=> (and (has n l) (alone n) (has n k)) (= l k))))
(invariant shared-by-readers (forall ((n Node) (l Lease))
  (=> (and (has n l) (not (alone n))) (reads l))))
(invariant quorum (forall ((n Node) (r Round))
  (=> (and (trusted r) (member n (yes r))) (voted n r))))
(invariant quorums-meet (forall ((r Round) (u Round))
  (=> (and (live r) (live u) (not (= r u))) (meet (yes r) (yes u)))))
(invariant votes-in-force (forall ((n Node) (r Round))
  (=> (and (voted n r) (usable r)) (or (keeps n r) (and (closed n) (early n r))))))
(invariant no-strange-lock (forall ((n Node) (l Lease) (r Round))
  (=> (and (has n l) (voted n r) (usable r)) (or (= (owner r) l) (released l) (and (reads (owner r)) (reads l))))))
(invariant one-vote (forall ((n Node) (r Round) (u Round))
  (=> (and (voted n r) (voted n u) (usable r) (usable u)) (or (= (owner r) (owner u)) (both-read r u)))))
(invariant token-of-grant (forall ((r Round))
  (=> (or (trusted r) (and (sent r) (extends r))) (and (granted (owner r)) (= (token r) (gtoken (owner r)))))))
(invariant floor-above (forall ((n Node) (r Round))
  (=> (and (voted n r) (not (extends r)) (not (forgot n r)))
      (and (<= (token r) (floor n)) (=> (= (token r) (floor n)) (= (by n) (owner r)))))))
(invariant older (forall ((n Node) (r Round) (u Round))
  (=> (and (trusted r) (not (extends r)) (member n (yes r)) (voted n u) (pending u) (not (and (shares r) (shares u))))
      (< (token r) (token u)))))
(invariant witness (forall ((l Lease))
  (=> (granted l) (and (trusted (by-round l)) (not (extends (by-round l))) (= (owner (by-round l)) l) (= (token (by-round l)) (gtoken l))
    (<= (gtoken l) newest) (=> (not (shares (by-round l))) (<= (gtoken l) written))))))
(invariant newest (and (or (= newest 0) (exists ((l Lease)) (and (granted l) (= (gtoken l) newest))))
  (or (= written 0) (exists ((l Lease)) (and (granted l) (not (shares (by-round l))) (= (gtoken l) written))))))
(invariant holder-is-newest (forall ((r Round))
  (=> (live r) (and (>= (gtoken (owner r)) written) (or (reads (owner r)) (= (gtoken (owner r)) newest))))))

; ---- What is promised

(promise one-holder-or-readers (forall ((r Round) (u Round))
  (=> (and (live r) (live u)) (or (= (owner r) (owner u)) (both-read r u)))))
(promise grant greater-token (> (token r) (ite (shares r) written newest)))
(promise extend nobody-since (and (>= (token r) written) (or (reads (owner r)) (= (token r) newest))))

; ---- What has to be possible, because a protocol in which nothing happens would keep all promises

(possible second-grant grant
  (exists ((l Lease)) (and (granted l) (released l) (not (= l (owner r))))))
(possible grant-after-an-expiry grant
  (exists ((u Round)) (and (trusted u) (over u) (not (released (owner u))) (not (= (owner u) (owner r))))))
(possible grant-after-a-restart grant
  (exists ((n Node) (u Round)) (and (member n q) (early n u) (forgot n u) (trusted u) (not (= (owner u) (owner r))))))
(possible vote-for-a-second-round take
  (exists ((u Round)) (and (not (= u r)) (= (owner u) (owner r)) (keeps n u) (not (voted n u)))))
(possible heal-a-node-that-lost-it heal
  (and (forall ((l Lease)) (not (has n l))) (not (closed n)) (forgot n (by-round (owner r))) (exists ((u Round)) (and (= (owner u) (owner r)) (live u)))))
(possible heal-below-the-floor-of-a-failed-attempt heal
  (and (forall ((l Lease)) (not (has n l))) (not (stores n r)) (> (floor n) (token r)) (exists ((u Round)) (and (= (owner u) (owner r)) (live u)))))
(possible extend-beside-a-node-in-quarantine extend
  (exists ((n Node)) (and (closed n) (member n q))))
(possible grant-of-what-was-handed-over grant
  (exists ((l Lease)) (and (granted l) (released l) (not (= l (owner r))) (exists ((n Node)) (has n l)))))
(possible grant-by-nodes-that-have-all-been-replaced grant
  (exists ((u Round)) (and (trusted u) (not (meet q (yes u))))))

(possible two-readers grant
  (exists ((u Round)) (and (live u) (not (= (owner u) (owner r))))))
(possible writer-after-readers grant
  (and (not (shares r)) (exists ((u Round) (w Round)) (and (trusted u) (trusted w) (shares u) (shares w) (not (= (owner u) (owner w)))))))

; ---- Mistakes, and the obligation that fails

(variant one-vote-is-enough (drop grant sets)
  (refuted (grant greater-token) (grant quorums-meet)))
(variant renewal-by-nodes-that-others-do-not-have (drop extend sets)
  (refuted (extend quorums-meet)))
(variant clocks-of-old-and-new-clients-do-not-agree
  (instead grant sets (forall ((u Round)) (=> (trusted u) (or (meet q (yes u)) (over u)))))
  (refuted (grant greater-token)))
(variant no-quarantine (sets restart closed false)
  (refuted (restart votes-in-force)))
(variant quarantine-ends-too-early (drop reopen windows-over)
  (refuted (reopen votes-in-force)))
(variant grants-in-quarantine (drop take open)
  (refuted (take one-vote)))
(variant heals-in-quarantine (drop heal open)
  (refuted (heal one-vote)))
(variant validity-counted-from-the-answer (drop grant in-time)
  (refuted (grant holder-is-newest)))
(variant attempt-counted-after-it-was-given-up (drop grant wanted)
  (refuted (grant holder-is-newest)))
(variant extension-counted-after-the-deadline (drop extend still-trusted)
  (refuted (extend nobody-since)))
(variant extension-by-less-than-a-quorum (drop extend quorum)
  (refuted (extend quorum)))
(variant tokens-not-compared (sets take voted true)
  (refuted (take floor-above) (take older)))
(variant tokens-equal-for-two-leases
  (sets take voted (or (voted n r) (>= (token r) (floor n))))
  (refuted (take floor-above) (take older)))
(variant clocks-do-not-agree (drop take clock)
  (refuted (take older)))
(variant taken-while-another-has-it (drop take free)
  (refuted (take one-vote)))
(variant healed-while-another-has-it (drop heal free)
  (refuted (heal one-vote)))
(variant lock-expires-too-early (drop expire windows-over)
  (refuted (expire votes-in-force)))
(variant released-while-trusted (drop end released)
  (refuted (end votes-in-force)))
(variant release-without-comparing-the-owner
  (sets end has (and (has m k) (not (= m n))))
  (sets end keeps (and (keeps m r) (not (= m n))))
  (refuted (end votes-in-force)))
(variant old-lock-after-a-restart (drop restart no-stranger)
  (refuted (restart no-strange-lock)))
(variant reader-beside-a-writer (instead take free (or (has n (owner r)) (shares r) (forall ((l Lease)) (not (has n l)))))
  (refuted (take one-vote)))
(variant writer-beside-a-reader (instead take free (or (has n (owner r)) (not (alone n)) (forall ((l Lease)) (not (has n l)))))
  (refuted (take one-vote)))
(variant renewed-writer-beside-a-reader (instead heal free (or (has n (owner r)) (not (alone n))))
  (refuted (heal one-vote)))
(variant readers-tokens-not-compared (sets take voted (or (voted n r) (stores n r) (shares r)))
  (refuted (take older)))
(variant readers-are-handed-over (drop hand-over held) (instead hand-over held (has n l))
  (refuted (hand-over one-vote)))
(variant handed-over-while-trusted (drop hand-over released)
  (refuted (hand-over one-vote)))
(variant handed-over-by-a-node-without-it (drop hand-over held)
  (refuted (hand-over one-vote)))
(variant handed-over-in-quarantine (drop hand-over open)
  (refuted (hand-over one-vote)))
(variant handed-over-below-the-floor (sets hand-over voted true)
  (refuted (hand-over older)))
(variant handed-over-before-it-was-asked-for (drop hand-over sent)
  (refuted (hand-over in-order)))
(variant handed-over-with-one-more-than-the-holders-token (let unclocked Round)
  (instead take clock (and (not (unclocked r)) (clocks-agree n r)))
  (instead hand-over clock (or (unclocked r) (clocks-agree n r)))
  (instead hand-over one-more (=> (unclocked r) (= (token r) (+ 1 (gtoken l)))))
  (instead hand-over known (granted l))
  (refuted (hand-over older)))
