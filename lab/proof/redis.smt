; SPDX-License-Identifier: Apache-2.0
;
; One Redis as package redislock uses it, as formulas: for any number of runs of
; servers, clients, leases, requests, renewals, failovers and losses of data. Only
; exclusive leases on one name. ../README.md has every clause in words.

(sort Run) (sort Client) (sort Lease) (sort Round)

; ---- What never changes

; A round goes to the run for which its script was loaded. It is a request for a lease (a look
; is one too), a renewal, or a claim that a script makes for a waiter.
(fixed client (Lease) Client)
(fixed owner (Round) Lease)
(fixed to (Round) Run)
(fixed renews (Round) Bool)
(fixed claims (Round) Bool)
(fixed kept (Lease) Bool)               ; the locks that a loss of data leaves; they differ for each loss

; ---- Clients, and time

(state at (Client) Run)                 ; the run that the client is bound to
(state sent (Round) Bool false)         ; its window has begun; the server may carry it out from now on
(state over (Round) Bool false)         ; its window has ended: TTL - drift after it began
(state left (Round) Bool false)         ; its client has left that run since, and ignores the answer
(state trusted (Round) Bool false)      ; the answer, or the message, came in time
(state granted (Lease) Bool false)
(state released (Lease) Bool false)     ; its client released it, or gave up the attempt
(state held (Lease) Bool false)         ; somebody uses it; otherwise the client keeps it, or has lost it
(state used (Lease) Int 0)              ; the token of its present or last user
(state limit (Lease) Int 0)             ; the last token that its client knows to be reserved for it
(state newest () Int 0)                 ; the last token that any user got

; ---- Servers

(state current () Run)                  ; the run that is in use
(state closed (Run) Bool true)          ; in quarantine, or without a record of its epoch
(state early (Run Round) Bool false)    ; sent before the quarantine began
(state has (Run Lease) Bool false)      ; the lock is there
(state keeps (Round) Bool false)        ; the lock stays in the round's run until the round's window is over
(state voted (Round) Bool false)        ; the round was carried out, and the lease had the lock
(state floor (Run) Int 1)
(state beyond (Run) Int 1)              ; the run's clock is beyond this when it grants; see "clock"
(state token (Lease) Int 1)             ; the token in the latest record
(state last (Lease) Int 1)              ; the last token that is reserved
(state latest () Lease)                 ; the lease that got the name last

; ---- Words

(define usable ((r Round)) (and (not (over r)) (not (released (owner r)))))
(define live ((r Round)) (and (trusted r) (usable r)))
(define holds ((r Round)) (and (trusted r) (not (over r)) (held (owner r))))
; Its client relies on the round, or may do so later. It can rely on a renewal only while it
; relies on the lease.
(define counts ((r Round)) (and (voted r) (usable r) (or (trusted r) (and (not (left r))
  (=> (renews r) (exists ((u Round)) (and (= (owner u) (owner r)) (live u))))))))

; ---- What clients do

(action send ((r Round))
  (when once (not (sent r)))
  (when request (not (claims r)))
  (when bound (= (at (client (owner r))) (to r)))
  (when kind (= (renews r) (granted (owner r))))
  (set (sent r) true))

(action pass-time ((r Round))
  (when begun (sent r))
  (set (over r) true))

(action grant ((r Round))
  (when asks (and (not (renews r)) (not (claims r))))
  (when carried-out (voted r))
  (when bound (not (left r)))
  (when in-time (not (over r)))
  (when wanted (not (released (owner r))))
  (when once (not (granted (owner r))))
  (set (trusted r) true)
  (set (granted (owner r)) true)
  (set (held (owner r)) true)
  (set (used (owner r)) (token (owner r)))
  (set (limit (owner r)) (last (owner r)))
  (set newest (token (owner r))))

; A waiter reads a message about the claim h. Its last look q tells what the server's
; time in the message means here: the window w.
(action hear ((h Round) (q Round) (w Round))
  (when claim (claims h))
  (when carried-out (voted h))
  (when looked (and (sent q) (not (renews q)) (not (claims q)) (= (owner q) (owner h)) (= (owner w) (owner h))))
  (when same-run (= (to q) (to h)))
  (when reckoned (=> (= (to q) (to h)) (= w h)))
  (when bound (not (left h)))
  (when in-time (not (over w)))
  (when wanted (not (released (owner h))))
  (when once (not (granted (owner h))))
  (set (trusted w) true)
  (set (granted (owner h)) true)
  (set (held (owner h)) true)
  (set (used (owner h)) (token (owner h)))
  (set (limit (owner h)) (last (owner h)))
  (set newest (token (owner h))))

(action extend ((r Round))
  (when renews (renews r))
  (when carried-out (voted r))
  (when bound (not (left r)))
  (when in-time (not (over r)))
  (when wanted (not (released (owner r))))
  (when still-trusted (exists ((u Round)) (and (= (owner u) (owner r)) (live u))))
  (set (trusted r) true))

; The user of the lease releases it. Then its client may give it to the next of its own waiters or
; keep it for its next call (reuse), or release it to the store (give-back).
(action set-down ((l Lease))
  (when held (held l))
  (set (held l) false))

(action reuse ((r Round))
  (when open (live r))
  (when unused (not (held (owner r))))
  (when reserved (< (used (owner r)) (limit (owner r))))
  (set (held (owner r)) true)
  (set (used (owner r)) (+ (used (owner r)) 1))
  (set newest (+ (used (owner r)) 1)))

(action give-back ((l Lease))
  (when unused (not (held l)))
  (set (released l) true))

; A client binds itself to another run, and says when it last heard of the run before. A
; quarantine begins, unless one began after the client sent the rounds on which it relies.
(action move ((c Client) (s Run) (anew Bool))
  (when another (not (= (at c) s)))
  (when news (or anew (forall ((r Round)) (=> (and (live r) (= (client (owner r)) c)) (early s r)))))
  (set (at c) s)
  (each (left r) (or (left r) (and (sent r) (= (client (owner r)) c) (not (= (to r) s)))))
  (set (closed s) (or anew (closed s)))
  (each (early t r) (ite (and anew (= t s)) (sent r) (early t r))))

; ---- What scripts do

; A script gives the free name to the lease that asks, with the tokens from k to k + n. Or
; it gives the name to a waiter, for a claim whose window begins now, and sends the waiter a message.
; A release with a hand-off is "end" followed by this.
(action take ((r Round) (k Int) (n Int))
  (when asked (and (not (renews r)) (= (claims r) (not (sent r)))))
  (when in-use (= (to r) current))
  (when open (not (closed (to r))))
  (when free (forall ((l Lease)) (not (has (to r) l))))
  (when above-floor (> k (floor (to r))))
  (when clock (> k (beyond (to r))))
  (when range (>= n 0))
  (set (sent r) true)
  (set (left r) (ite (claims r) (not (= (at (client (owner r))) (to r))) (left r)))
  (set (has (to r) (owner r)) true)
  (set (keeps r) true)
  (set (voted r) true)
  (set (floor (to r)) (+ k n))
  (set (token (owner r)) k)
  (set (last (owner r)) (+ k n))
  (set latest (owner r)))

; A renewal, or a request for a lease that has the lock. The renewal needs no open epoch.
(action lengthen ((r Round))
  (when sent (sent r))
  (when request (not (claims r)))
  (when in-use (= (to r) current))
  (when there (has (to r) (owner r)))
  (when open (or (renews r) (not (closed (to r)))))
  (each (keeps u) (or (keeps u) (= u r)))
  (set (voted r) true))

(action end ((s Run) (l Lease))
  (when released (released l))
  (each (has t k) (and (has t k) (not (and (= t s) (= k l)))))
  (each (keeps r) (and (keeps r) (not (and (= (to r) s) (= (owner r) l))))))

(action expire ((s Run) (l Lease))
  (when windows-over (forall ((r Round)) (=> (and (keeps r) (= (to r) s) (= (owner r) l)) (over r))))
  (set (has s l) false)
  (each (keeps r) (and (keeps r) (not (and (= (to r) s) (= (owner r) l))))))

; ---- What happens to servers

; A run begins; or it loses some or all of its data; or the data of another run replaces
; it. Then the run has no record of its epoch. It may still have keys that have ended
; elsewhere.
(action lose ((s Run) (f Int))
  (each (has t l) (ite (= t s) (kept l) (has t l)))
  (each (keeps r) (and (keeps r) (not (= (to r) s))))
  (each (early t r) (ite (= t s) (sent r) (early t r)))
  (set (floor s) f)
  (set (beyond s) (last latest))
  (set (closed s) true))

; From now on another run is in use. The run before may go on, but we assume that it grants and
; renews nothing more.
(action use ((s Run))
  (when quarantine (closed s))
  (set current s)
  (set (beyond s) (last latest)))

; By now a key that has ended elsewhere has ended here too. So a lock that is left belongs to
; the lease that had the name last, or to a lease that was released.
(action reopen ((s Run))
  (when in-use (= s current))
  (when windows-over (forall ((r Round)) (=> (early s r) (over r))))
  (when no-stranger (forall ((l Lease)) (=> (has s l) (or (= l latest) (released l)))))
  (when all-have-come (forall ((r Round))
    (=> (and (counts r) (not (= (to r) s))) (or (early s r) (= (at (client (owner r))) s)))))
  (set (closed s) false))

(action age ((s Run))
  (set (floor s) 0)
  (set (beyond s) (last latest)))

; ---- What is always true

(invariant in-order (forall ((r Round)) (and (=> (over r) (sent r)) (=> (voted r) (sent r)) (=> (trusted r) (voted r))
  (=> (keeps r) (has (to r) (owner r))) (=> (sent r) (or (left r) (= (at (client (owner r))) (to r)))))))
(invariant votes-in-force (forall ((r Round)) (=> (counts r) (or (closed current) (and (keeps r) (= (to r) current))))))
(invariant forgotten-is-early (forall ((r Round)) (=> (and (counts r) (not (keeps r))) (early (to r) r))))
(invariant left-is-early (forall ((r Round)) (=> (and (live r) (left r)) (early (at (client (owner r))) r))))
(invariant one-in-force (forall ((r Round)) (=> (counts r) (= (owner r) latest))))
(invariant lock-of-the-latest (forall ((l Lease)) (=> (and (not (closed current)) (has current l) (not (released l))) (= l latest))))
(invariant unused-tokens (or (granted latest) (> (token latest) newest)))
(invariant floor-or-clock (or (<= (last latest) (floor current)) (<= (last latest) (beyond current))))
(invariant range (and (<= (token latest) (last latest)) (<= newest (last latest))))
(invariant holder-is-newest (forall ((r Round)) (=> (live r)
  (and (granted (owner r)) (= (used (owner r)) newest) (= (limit (owner r)) (last (owner r)))))))
(invariant in-use-is-not-released (forall ((l Lease)) (=> (held l) (and (granted l) (not (released l))))))

(invariant kind (forall ((r Round)) (=> (and (sent r) (renews r)) (and (granted (owner r)) (not (claims r))))))

; ---- What is promised

(promise one-holder (forall ((r Round) (u Round)) (=> (and (holds r) (holds u)) (= (owner r) (owner u)))))
(promise grant nobody-has-it (forall ((u Round)) (not (holds u))))
(promise hear nobody-has-it (forall ((u Round)) (not (holds u))))
(promise reuse nobody-has-it (forall ((u Round)) (not (holds u))))
(promise grant greater-token (> (token (owner r)) newest))
(promise hear greater-token (> (token (owner h)) newest))
(promise reuse greater-token (= (used (owner r)) newest))
(promise extend nobody-since (= (used (owner r)) newest))

; ---- What has to be possible, because a protocol in which nothing happens would keep all promises

(possible grant-after-a-release grant (exists ((l Lease)) (and (granted l) (released l) (not (= l (owner r))))))
(possible grant-after-an-expiry grant
  (exists ((u Round)) (and (trusted u) (over u) (not (released (owner u))) (not (= (owner u) (owner r))))))
(possible grant-after-a-failover grant
  (exists ((u Round)) (and (trusted u) (early (to r) u) (not (= (to u) (to r))) (not (= (owner u) (owner r))))))
(possible grant-after-a-lease-was-reused grant (exists ((l Lease)) (and (released l) (> (used l) (token l)))))
(possible message-after-a-release hear (exists ((l Lease)) (and (granted l) (released l) (not (has (to h) l)))))
(possible renewal-in-quarantine lengthen
  (and (renews r) (closed current) (exists ((u Round)) (and (holds u) (= (owner u) (owner r))))))
(possible lease-that-goes-on-at-another-run extend
  (exists ((u Round)) (and (live u) (= (owner u) (owner r)) (not (= (to u) (to r))))))
(possible grant-by-an-old-master-while-the-new-one-is-closed take
  (exists ((s Run) (c Client)) (and (not (= s current)) (= (at c) s) (closed s) (not (= c (client (owner r)))))))
(possible kept-lease-used-again reuse (and (renews r) (> (used (owner r)) (token (owner r)))))
(possible request-that-comes-late take (and (granted (owner r)) (released (owner r)) (voted r)))
(possible client-that-comes-late move
  (and (= s current) (not (closed s)) (not anew) (exists ((r Round)) (and (trusted r) (= (client (owner r)) c)))))

; ---- Mistakes, and the obligation that fails
(variant no-quarantine-after-a-loss (sets lose closed false) (refuted (lose votes-in-force)))
(variant another-run-not-noticed (drop use quarantine) (refuted (use votes-in-force)))
(variant quarantine-ends-too-early (drop reopen windows-over) (refuted (reopen votes-in-force)))
(variant granted-or-handed-over-in-quarantine (drop take open) (refuted (take one-in-force)))
(variant late-client-says-nothing (drop move news) (refuted (move left-is-early)))
(variant a-client-that-never-comes (drop reopen all-have-come) (refuted (reopen votes-in-force)))
(variant two-servers-in-use (drop take in-use) (refuted (take one-in-force) (take votes-in-force)))
(variant old-master-goes-on-renewing (drop lengthen in-use) (refuted (lengthen votes-in-force)))
(variant answer-of-a-run-that-was-left (drop grant bound) (refuted (grant nobody-has-it) (grant one-in-force)))
(variant renewal-by-a-run-that-was-left (drop extend bound) (refuted (extend votes-in-force)))
(variant message-of-another-run (drop hear same-run) (refuted (hear nobody-has-it) (hear in-order)))
(variant message-of-a-run-that-was-left (drop hear bound) (refuted (hear nobody-has-it) (hear one-in-force)))
(variant message-believed-from-its-arrival (drop hear reckoned) (refuted (hear nobody-has-it) (hear in-order)))
(variant message-of-a-claim-that-is-over (drop hear in-time) (refuted (hear nobody-has-it) (hear greater-token)))
(variant told-without-a-record (sets take has (not (claims r))) (sets take keeps (not (claims r)))
  (refuted (take votes-in-force)))
(variant release-without-comparing-the-owner
  (sets end has (and (has t k) (not (= t s)))) (sets end keeps (and (keeps r) (not (= (to r) s)))) (refuted (end votes-in-force)))
(variant given-while-another-has-it (drop take free) (refuted (take one-in-force)))
(variant renewal-without-comparing-the-owner (drop lengthen there) (refuted (lengthen one-in-force)))
(variant late-request-shortens-the-lock
  (sets lengthen keeps (or (= u r) (and (keeps u) (not (= (owner u) (owner r)))))) (refuted (lengthen votes-in-force)))
(variant lock-expires-too-early (drop expire windows-over) (refuted (expire votes-in-force)))
(variant validity-counted-from-the-answer (drop grant in-time) (refuted (grant nobody-has-it) (grant greater-token)))
(variant late-renewal-revives-a-lost-lease (drop extend still-trusted) (refuted (extend nobody-since)))
(variant old-lock-after-the-quarantine (drop reopen no-stranger) (refuted (reopen lock-of-the-latest)))
(variant attempt-gets-its-old-lock-in-quarantine (drop lengthen open) (refuted (lengthen one-in-force)))
(variant floor-and-clock-forgotten (sets lose beyond 0) (refuted (lose floor-or-clock)))
(variant floor-not-compared (drop take above-floor) (refuted (take unused-tokens)))
(variant floor-without-the-reserved-tokens (sets take floor k) (refuted (take floor-or-clock)))
(variant more-tokens-than-were-reserved (drop reuse reserved) (refuted (reuse range)))
(variant kept-lease-used-after-its-window (drop reuse open) (refuted (reuse nobody-has-it) (reuse greater-token)))
(variant kept-lease-used-twice-at-once (drop reuse unused) (refuted (reuse nobody-has-it)))
(variant recall-takes-what-is-in-use (drop give-back unused) (refuted (give-back in-use-is-not-released)))
