; SPDX-License-Identifier: Apache-2.0
;
; The arithmetic behind redlock.smt and redis.smt. They know windows but no clocks; this file
; shows why a window is over before the lock, the quarantine and the floor that depend on
; it. All numbers are milliseconds, of true time or of a clock. Clocks run as fast as true
; time, within half a percent.

; A client notes the instant, sends a request, and trusts the lease until its clock shows that
; TTL - drift have passed. A node carries the request out after the instant, and keeps the lock until its
; clock shows that the TTL has passed, or a millisecond less, because it rounds.
(fixed ttl () Real)                     ; of the request
(fixed noted () Real)
(fixed trusted-until () Real)
(fixed client-shows () Real)            ; between the two, by the client's clock
(fixed carried-out () Real)
(fixed lock-ends () Real)
(fixed node-shows () Real)              ; between the two, by the node's clock
(fixed drift () Real)

(assume ttl-positive (> ttl 0.0))
(assume drift (= drift (+ (/ ttl 100.0) 2.0)))
(assume trust-within-the-ttl (<= client-shows (- ttl drift)))
(assume noted-before-sending (<= noted carried-out))
(assume lock-for-the-ttl (>= node-shows (- ttl 1.0)))
(assume pace-of-the-client (<= (- trusted-until noted) (* 1.005 client-shows)))
(assume pace-of-the-node (<= node-shows (* 1.005 (- lock-ends carried-out))))
(assume times-in-order (and (<= noted trusted-until) (<= carried-out lock-ends)))

(promise lock-outlives-trust (>= lock-ends trusted-until))

; A node loses its data and starts again. It opens when its clock shows that MaxTTL has passed, or a
; millisecond less. A forgotten request was carried out before the loss, so its instant is before the loss too.
(fixed max-ttl () Real)
(fixed lost () Real)
(fixed opens () Real)
(fixed closed-shows () Real)

(assume ttl-agreed (<= ttl max-ttl))
(assume quarantine-for-max-ttl (>= closed-shows (- max-ttl 1.0)))
(assume pace-in-quarantine (<= closed-shows (* 1.005 (- opens lost))))
(assume carried-out-before-the-loss (<= carried-out lost))

(promise quarantine-outlives-trust (>= opens trusted-until))

; A change of the nodes first makes enough nodes refuse the old set, so that the old set has no quorum left. Then it
; waits until its clock shows that MaxTTL and its drift have passed. Then nodes accept the new set. A round that a
; quorum of the old set has confirmed began before the refusal.
(fixed refused () Real)
(fixed accepted () Real)
(fixed wait-shows () Real)

(assume begun-before-the-refusal (<= noted refused))
(assume wait-for-max-ttl (>= wait-shows (+ max-ttl (/ max-ttl 100.0) 2.0)))
(assume pace-of-the-wait (<= wait-shows (* 1.005 (- accepted refused))))

(promise wait-outlives-trust (>= accepted trusted-until))

; Another request was sent after the loss. The node carries it out after opening, within the
; request's window. Its token is the wall clock of its client, read after the client noted the
; instant. The forgotten token is the wall clock of another client before the loss. The
; clocks disagree by less than MaxTTL minus the TTL of the request.
(fixed late-ttl () Real)
(fixed late-noted () Real)
(fixed late-read () Real)               ; when its client read the clock
(fixed late-carried-out () Real)
(fixed late-shows () Real)              ; since it was noted
(fixed forgotten-token () Real)
(fixed late-token () Real)
(fixed disagree () Real)

(assume late-in-time (<= late-shows (- late-ttl (+ (/ late-ttl 100.0) 2.0))))
(assume late-pace (<= (- late-carried-out late-noted) (* 1.005 late-shows)))
(assume late-after-opening (>= late-carried-out opens))
(assume clock-read-in-the-window (>= late-read late-noted))
(assume late-ttl-agreed (and (> late-ttl 0.0) (<= late-ttl max-ttl)))
(assume clocks-agree (<= (- forgotten-token lost) (+ (- late-token late-read) disagree)))
(assume how-well-clocks-agree (<= disagree (* 0.995 (- max-ttl late-ttl))))

(promise clock-outlives-memory (> late-token forgotten-token))

; One Redis hands the lock to a waiter for a claim, with a message that has the time of the
; server's clock. The waiter sent its last look before that, and the answer had the time of the same
; clock. So the waiter can compute an instant before the begin of the claim.
(fixed looked () Real)                  ; noted before the look was sent
(fixed answered () Real)                ; the time in the answer
(fixed handed () Real)                  ; the time in the message
(fixed claim-ends () Real)
(fixed claim-trusted-until () Real)
(fixed passed () Real)                  ; between the answer and the message, by the server's clock
(fixed waiter-shows () Real)            ; from the look until the end of trust, by the waiter's
(fixed claim () Real)
(fixed claim-shows () Real)             ; until the lock ends, by the server's

(assume looked-before-it-was-handed (and (<= looked answered) (<= answered handed)))
(assume counted-from-the-look (<= waiter-shows (- (+ passed claim) (/ passed 100.0) 2.0 (/ claim 100.0) 2.0)))
(assume pace-of-the-waiter (<= (- claim-trusted-until looked) (* 1.005 waiter-shows)))
(assume pace-since-the-look (<= passed (* 1.005 (- handed answered))))
(assume lock-for-the-claim (>= claim-shows (- claim 1.0)))
(assume pace-of-the-claim (<= claim-shows (* 1.005 (- claim-ends handed))))
(assume claim-within-max-ttl (and (> claim 0.0) (<= claim max-ttl)))
(assume handed-before-the-loss (<= handed lost))

(promise claim-outlives-trust (>= claim-ends claim-trusted-until))
(promise quarantine-outlives-a-claim (>= opens claim-trusted-until))

(variant validity-counted-from-the-answer (forget noted-before-sending)
  (refuted (always lock-outlives-trust)))
(variant nothing-taken-off-for-drift (forget drift)
  (refuted (always lock-outlives-trust)))
(variant a-clock-that-steps (forget pace-of-the-node)
  (refuted (always lock-outlives-trust)))
(variant a-client-whose-clock-stands-still (forget pace-of-the-client)
  (refuted (always lock-outlives-trust)))
(variant a-ttl-that-was-not-agreed (forget ttl-agreed)
  (refuted (always quarantine-outlives-trust)))
(variant quarantine-from-before-the-loss (forget carried-out-before-the-loss)
  (refuted (always quarantine-outlives-trust)))
(variant wait-since-the-nodes-were-asked (forget begun-before-the-refusal)
  (refuted (always wait-outlives-trust)))
(variant token-read-before-the-instant-is-noted (forget clock-read-in-the-window)
  (refuted (always clock-outlives-memory)))
(variant clocks-that-disagree (forget how-well-clocks-agree)
  (refuted (always clock-outlives-memory)))
(variant claim-counted-from-the-arrival-of-the-message (forget counted-from-the-look)
  (refuted (always claim-outlives-trust)))
(variant message-from-before-the-look (forget looked-before-it-was-handed)
  (refuted (always claim-outlives-trust)))
(variant clock-set-forward-between-look-and-message (forget pace-since-the-look)
  (refuted (always claim-outlives-trust)))
(variant claim-longer-than-max-ttl (forget claim-within-max-ttl)
  (refuted (always quarantine-outlives-a-claim)))
