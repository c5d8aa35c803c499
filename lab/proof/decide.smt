; SPDX-License-Identifier: Apache-2.0
;
; How it is decided which generation of the sets of nodes follows another: Paxos, for any number of nodes and
; ballots. What is promised here is what nodes.smt takes for granted where a generation begins: that there is no
; other of that number. ../README.md explains every clause.

(sort Node) (sort Quorum) (sort Ballot) (sort Value)

; ---- What never changes

(fixed member (Node Quorum) Bool)       ; a quorum is more than half of the nodes that decide
(fixed before (Ballot Ballot) Bool)     ; by their numbers, and of two with one number by their ids
(fixed value (Ballot) Value)            ; the generation that it is for
(fixed none () Ballot)

(assume majorities-meet (forall ((p Quorum) (q Quorum)) (exists ((n Node)) (and (member n p) (member n q)))))
(assume in-order (forall ((a Ballot) (b Ballot) (c Ballot))
  (and (not (before a a)) (=> (and (before a b) (before b c)) (before a c)) (or (= a b) (before a b) (before b a)))))
(assume none (forall ((b Ballot)) (or (= b none) (before none b))))

; ---- Nodes

(state heeded (Node Ballot) Bool false)
(state left (Node Ballot) Bool false)   ; it has heeded a later one
(state accepted (Node Ballot) Bool false)

; ---- Changes

(state proposed (Ballot) Bool false)
(state asked (Ballot) Quorum)           ; whose answers it rests on
(state decided (Ballot) Bool false)
(state votes (Ballot) Quorum)           ; that decided it

; ---- What may happen

(action heed ((n Node) (b Ballot))
  (when ballot (not (= b none)))
  (when later (not (left n b)))
  (set (heeded n b) true)
  (each (left m c) (or (left m c) (and (= m n) (before c b)))))

; From the answers of a quorum; c is the latest that one of them has accepted, or none. A node that has heeded b
; accepts no earlier one, so what it has said is still so.
(action propose ((b Ballot) (q Quorum) (c Ballot))
  (when once (not (proposed b)))
  (when quorum (forall ((n Node)) (=> (member n q) (heeded n b))))
  (when said (or (= c none) (and (before c b) (exists ((n Node)) (and (member n q) (accepted n c))))))
  (when latest (forall ((n Node) (d Ballot))
    (=> (and (member n q) (accepted n d) (before d b)) (or (= d c) (before d c)))))
  (when same (or (= c none) (= (value b) (value c))))
  (set (proposed b) true)
  (set (asked b) q))

(action accept ((n Node) (b Ballot))
  (when proposed (proposed b))
  (when heeded (heeded n b))
  (when last (not (left n b)))
  (set (accepted n b) true))

; Whoever tells nodes of the generation knows that.
(action decide ((b Ballot) (q Quorum))
  (when quorum (forall ((n Node)) (=> (member n q) (accepted n b))))
  (set (decided b) true)
  (set (votes b) q))

; ---- What is always true

(invariant heeded-in-order (forall ((n Node) (b Ballot) (c Ballot))
  (=> (and (heeded n b) (before c b)) (left n c))))
(invariant ballots (and (not (proposed none)) (forall ((n Node)) (not (heeded n none)))))
(invariant votes-are-for-proposals (forall ((n Node) (b Ballot))
  (=> (accepted n b) (proposed b))))
(invariant answers (forall ((n Node) (b Ballot))
  (=> (and (proposed b) (member n (asked b))) (heeded n b))))
(invariant nothing-else-can-be (forall ((b Ballot) (c Ballot) (q Quorum))
  (=> (and (proposed b) (proposed c) (before b c) (not (= (value b) (value c))))
      (exists ((n Node)) (and (member n q) (left n b) (not (accepted n b)))))))
(invariant quorum (forall ((b Ballot) (n Node))
  (=> (and (decided b) (member n (votes b))) (accepted n b))))
(invariant decided-is-proposed (forall ((b Ballot)) (=> (decided b) (proposed b))))

; ---- What is promised

(promise one-generation (forall ((b Ballot) (c Ballot))
  (=> (and (decided b) (decided c)) (= (value b) (value c)))))

; ---- What has to be possible

(possible after-another-that-was-interrupted decide
  (exists ((c Ballot) (n Node)) (and (accepted n c) (before c b) (not (= (value c) (value b))))))
(possible twice decide (exists ((c Ballot)) (and (decided c) (not (= c b)))))
(possible what-was-interrupted propose (and (not (= c none)) (not (decided c))))

; ---- Mistakes, and the obligation that fails

(variant a-minority-is-asked (drop propose quorum)
  (refuted (propose nothing-else-can-be)))
(variant a-minority-accepts (drop decide quorum)
  (refuted (decide quorum)))
(variant what-was-accepted-does-not-count (drop propose same)
  (refuted (propose nothing-else-can-be)))
(variant any-that-was-accepted-will-do (drop propose latest)
  (refuted (propose nothing-else-can-be)))
(variant an-earlier-ballot-is-accepted (drop accept last)
  (refuted (accept nothing-else-can-be)))
