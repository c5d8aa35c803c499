; SPDX-License-Identifier: Apache-2.0
;
; How the nodes of Redlock are changed while leases live, as formulas: for any number of
; nodes and of changes, one after the other. What is promised here is what redlock.smt
; asks of quorums, action grant and action extend. ../README.md explains every clause.

(sort Node) (sort NodeSet) (sort Quorum) (sort Round) (sort Record)

; ---- What never changes

(fixed member (Node Quorum) Bool)
(fixed of (Quorum) NodeSet)
(fixed with (Round) NodeSet)                ; what the client that sends it takes for its set
(fixed most (NodeSet NodeSet) Bool)             ; each quorum of the first has more than half of the second's nodes
(fixed number (Record) Int)             ; its generation
(fixed accepts (Record NodeSet) Bool)
(fixed none () Record)                  ; of a node that nobody has used

(define meet ((p Quorum) (q Quorum)) (exists ((n Node)) (and (member n p) (member n q))))
(assume two-halves-meet (forall ((p Quorum) (q Quorum) (b NodeSet))
  (=> (and (most (of p) b) (most (of q) b)) (meet p q))))
(assume quorums-are-more-than-half (forall ((s NodeSet)) (most s s)))
(assume none (and (= (number none) 0) (forall ((s NodeSet)) (not (accepts none s)))))

; ---- Clients, and time, as in redlock.smt

(state sent (Round) Bool false)
(state over (Round) Bool false)
(state trusted (Round) Bool false)
(state yes (Round) Quorum)

; ---- Nodes

(state record (Node) Record none)
(state knew (Node) Int 0)               ; the largest number that it has had
(state voted (Node Round) Bool false)

; ---- Whoever changes the nodes

(state latest () Record none)
(state begun (Record) Bool false)
(state blocked (NodeSet) Bool false)        ; so many nodes refuse it that none of its quorums is left
(state from (NodeSet) Int)                  ; since this generation
(state stopped (Node NodeSet) Bool false)   ; those nodes
(state early (Round) Bool false)        ; it had begun by then
(state used (NodeSet) Bool false)           ; it is accepted, or leases of its clients may be live
(state base () NodeSet)                     ; of which each quorum in use has more than half

; ---- What may happen

(action send ((r Round))
  (when once (not (sent r)))
  (set (sent r) true))

(action pass-time ((r Round))
  (when begun (sent r))
  (set (over r) true))

; A yes of any script: to a proposal, to a renewal, to a lease that is handed over.
(action vote ((n Node) (r Round))
  (when sent (sent r))
  (when accepted (accepts (record n) (with r)))
  (when told-again (or (>= (number (record n)) (knew n)) (accepts latest (with r))))
  (set (voted n r) true))

(action confirm ((r Round) (q Quorum))
  (when sent (sent r))
  (when in-time (not (over r)))
  (when once (not (trusted r)))
  (when own (= (of q) (with r)))
  (when quorum (forall ((n Node)) (=> (member n q) (voted n r))))
  (set (trusted r) true)
  (set (yes r) q))

; Begin a generation that accepts one set more, after the one that was read. The first
; generation follows none.
(action add ((x Record) (y Record) (s NodeSet))
  (when new (not (begun x)))
  (when latest (= y latest))
  (when next (= (number x) (+ 1 (number y))))
  (when content (forall ((t NodeSet)) (= (accepts x t) (or (accepts y t) (= t s)))))
  (when most (most s base))
  (set (begun x) true)
  (set latest x)
  (set (used s) true)
  (set (blocked s) false))

(action drop ((x Record) (y Record) (s NodeSet))
  (when new (not (begun x)))
  (when latest (= y latest))
  (when next (= (number x) (+ 1 (number y))))
  (when content (forall ((t NodeSet)) (= (accepts x t) (and (accepts y t) (not (= t s))))))
  (set (begun x) true)
  (set latest x))

; By whoever changes the nodes, or by a client that has learnt it from others.
(action tell ((n Node) (x Record))
  (when begun (begun x))
  (when newer (> (number x) (number (record n))))
  (set (record n) x)
  (set (knew n) (ite (> (number x) (knew n)) (number x) (knew n))))

; A node has an older record, or none, or one from a client that knew of no other.
(action lose ((n Node) (x Record))
  (when older (< (number x) (knew n)))
  (set (record n) x))

; Enough nodes have the latest record, which does not accept the set: the wait begins.
(action block ((s NodeSet))
  (when refused (and (used s) (not (accepts latest s))))
  (when enough (forall ((q Quorum)) (=> (= (of q) s)
    (exists ((n Node)) (and (member n q) (= (knew n) (number latest)))))))
  (set (blocked s) true)
  (set (from s) (number latest))
  (each (stopped n t) (ite (= t s) (= (knew n) (number latest)) (stopped n t)))
  (each (early r) (ite (= (with r) s) (sent r) (early r))))

; The wait is over.
(action retire ((s NodeSet))
  (when blocked (blocked s))
  (when windows-over (forall ((r Round)) (=> (and (= (with r) s) (early r)) (over r))))
  (set (used s) false))

; Nobody does this: between two changes it is the set of all programs, and it is the next one
; as soon as only the set in between is in use.
(action turn ((b NodeSet))
  (when most (forall ((s NodeSet)) (=> (used s) (most s b))))
  (set base b))

; ---- What is always true

(invariant in-order (forall ((n Node) (r Round))
  (and (=> (voted n r) (sent r)) (=> (trusted r) (sent r)) (=> (early r) (sent r)))))
(invariant generations (forall ((x Record))
  (=> (begun x) (and (> (number x) 0) (<= (number x) (number latest)) (=> (= (number x) (number latest)) (= x latest))))))
(invariant last-generation (or (begun latest) (= latest none)))
(invariant records (forall ((n Node))
  (and (<= (number (record n)) (knew n)) (<= 0 (knew n)) (<= (knew n) (number latest))
       (or (= (record n) none) (begun (record n)) (< (number (record n)) (knew n))))))
(invariant quorum (forall ((r Round) (n Node))
  (=> (trusted r) (and (= (of (yes r)) (with r)) (=> (member n (yes r)) (voted n r))))))
(invariant more-than-half (forall ((s NodeSet)) (=> (used s) (most s base))))
(invariant accepted-is-used (forall ((s NodeSet)) (=> (accepts latest s) (used s))))
(invariant once-accepted (forall ((x Record) (s NodeSet))
  (=> (and (begun x) (accepts x s)) (or (used s) (blocked s)))))
(invariant once-voted-for (forall ((n Node) (r Round))
  (=> (voted n r) (or (used (with r)) (blocked (with r))))))
(invariant no-way-back (forall ((s NodeSet) (x Record))
  (=> (and (blocked s) (begun x) (accepts x s)) (< (number x) (from s)))))
(invariant blocked-is-latest (forall ((s NodeSet))
  (=> (blocked s) (not (accepts latest s)))))
(invariant no-quorum-left (forall ((q Quorum))
  (=> (blocked (of q)) (exists ((n Node)) (and (member n q) (stopped n (of q)))))))
(invariant stopped-for-good (forall ((n Node) (s NodeSet))
  (=> (and (blocked s) (stopped n s)) (>= (knew n) (from s)))))
(invariant voted-before (forall ((n Node) (r Round))
  (=> (and (blocked (with r)) (stopped n (with r)) (voted n r)) (early r))))
(invariant unused-is-over (forall ((r Round))
  (=> (and (blocked (with r)) (not (used (with r))) (early r)) (over r))))

; ---- What is promised

(promise live-quorums-meet (forall ((r Round) (u Round))
  (=> (and (trusted r) (trusted u) (not (over r)) (not (over u))) (meet (yes r) (yes u)))))
(promise confirm sets (forall ((u Round))
  (=> (trusted u) (or (meet q (yes u)) (over u)))))

; ---- What has to be possible

(possible beside-a-client-with-another-set confirm
  (exists ((u Round)) (and (trusted u) (not (over u)) (not (= (with u) (with r))))))
(possible after-a-client-of-nodes-that-have-all-been-replaced confirm
  (exists ((u Round)) (and (trusted u) (forall ((n Node)) (not (and (member n (yes u)) (exists ((p Quorum)) (and (= (of p) (with r)) (member n p)))))))))
(possible forgotten-client-gets-votes vote
  (and (not (accepts latest (with r))) (blocked (with r)) (not (over r)) (exists ((u Round)) (and (trusted u) (not (over u)) (accepts latest (with u))))))
(possible back-to-a-set-of-before add
  (and (blocked s) (exists ((u Round)) (and (trusted u) (= (with u) s)))))
(possible next-change-while-leases-of-the-last-are-live add
  (exists ((u Round)) (and (trusted u) (not (over u)) (not (accepts y (with u))) (blocked (with u)))))
(possible votes-of-a-node-that-lost-its-record vote
  (and (< (number (record n)) (knew n)) (not (begun (record n)))))

; ---- Mistakes, and the obligation that fails

(variant client-with-another-set-is-not-refused (drop vote accepted)
  (refuted (vote once-voted-for) (vote voted-before)))
(variant renewals-are-not-refused (let renews Round) (instead vote accepted (or (renews r) (accepts (record n) (with r))))
  (refuted (vote voted-before)))
(variant lost-record-told-of-a-step-before (drop vote told-again)
  (refuted (vote voted-before)))
(variant older-record-in-the-place-of-a-newer-one (drop tell newer) (sets tell knew (number x))
  (refuted (tell stopped-for-good)))
(variant quorum-of-any-nodes (drop confirm own)
  (refuted (confirm quorum) (confirm sets)))
(variant one-node-knows-that-the-old-set-is-refused
  (instead block enough (exists ((n Node)) (= (knew n) (number latest))))
  (refuted (block no-quorum-left)))
(variant new-set-before-the-old-leases-are-over (drop retire windows-over)
  (refuted (retire unused-is-over)))
(variant wait-begins-before-nodes-refuse (drop retire blocked)
  (refuted (retire once-accepted) (retire once-voted-for)))
(variant straight-from-the-old-set-to-the-new (drop add most)
  (refuted (add more-than-half)))
(variant set-in-between-meets-only-those-beside-it
  (instead add most (forall ((p Quorum) (q Quorum)) (=> (and (= (of p) s) (accepts y (of q))) (meet p q))))
  (refuted (add more-than-half)))
(variant two-changes-at-once (drop add latest)
  (instead add most (forall ((p Quorum) (q Quorum)) (=> (and (= (of p) s) (accepts y (of q))) (meet p q))))
  (refuted (add generations) (add more-than-half) (add no-way-back)))
