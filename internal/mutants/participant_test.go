// SPDX-License-Identifier: Apache-2.0

package mutants

// Mistakes in the client half of a lock, each of which random histories have to find.
func init() {
	const (
		pkg     = "internal/participant"
		attempt = pkg + "/attempt.go"
		event   = pkg + "/event.go"
		lease   = pkg + "/lease.go"
		wait    = pkg + "/wait.go"
	)
	for _, m := range []mutant{
		{name: "a message hands over to a caller that does not renew", file: event, old: "if !a.req.Renewed {", new: "if false {"},
		{name: "a message of another connection hands over", file: event, old: "|| e.Grant.Session != a.seen.session", new: "", test: "TestTake"},
		{name: "a grant from before the last look is believed", file: event, old: "if cmp.Or(e.Heard, e.Grant.Since) < a.seen.began {", new: "if false {", test: "TestTake"},
		{name: "a claim is trusted for a whole TTL", file: event, old: "a.hold(&e.Grant, t, since)", new: "a.hold(&e.Grant, t, now)"},
		{name: "a claim is taken that is over before a renewal is answered", file: event, old: "!ok || since.Add(a.ttl).Sub(now) < tripsOfClaim*a.seen.took", new: "!ok"},
		{name: "a late message hands over what is lost", file: event, old: "if w := l.waiter; w.lost == 0 {", new: "if w := l.waiter; true {", test: "TestGrantedAfterLost"},
		{name: "a waiter does not ask in time to keep its place", file: pkg + "/pace.go", old: "if ans.Again > 0 {", new: "if false {", test: "TestAgain"},
		{name: "a repeated call has no handle", file: attempt, old: "again.doubt, again.ref.Handle", new: "again.doubt, l.ref.Handle", test: "TestRepeatedHandle"},
		{name: "an answer from before a loss counts", file: attempt, old: "w != nil && w.lost >= began", new: "w != nil && w.lost >= began && false"},
		{name: "what was handed to a caller that has gone stays", file: event, old: "p.inBackground(func() { p.decline(", new: "_ = (func() { p.decline(", test: "TestDeclined"},
		{name: "a loss is told to nobody", file: event, old: "\t\t\tl.lose(orGone(e.Loss))\n", new: "\t\t\t_ = orGone\n"},
		{name: "that others want a name is told to nobody", file: event, old: "l != nil && l.wanted != nil {\n\t\t\tl.wanted.put()", new: "l != nil && l.wanted != nil {\n\t\t\tl.wanted.said = false"},
		{name: "a kept lease does not hear that nobody could ask for it", file: lease, old: "l.wanted != nil && a.Session == nil", new: "false"},
		{name: "trust counts from the answer", file: attempt, old: "TTL: a.ttl}, ans.Since)", new: "TTL: a.ttl}, heard)"},
		{name: "a renewal counts from the answer", file: lease, old: "\treturn r.Since, nil", new: "\treturn heard, nil"},
		{name: "a caller whose context ends leaves its place", file: wait, old: "Err: a.p.usable(ctx), Maybe: a.p.caps.Queue}", new: "Err: a.p.usable(ctx)}"},
		{name: "a caller that polls leaves what is in doubt", file: attempt, old: "f.Maybe = f.Maybe || a.doubt\n\tif", new: "if"},
		{name: "a request without an answer is forgotten", file: attempt, old: "a.doubt = a.doubt || f.Maybe\n", new: "_ = f\n"},
		{name: "a release does not say what is in doubt", file: lease, old: "Doubt: l.doubt}", new: "Doubt: false}"},
		{name: "a released lease stays known", file: lease, old: "\tl.forget()\n\tif err != nil {\n\t\tf := worded", new: "\tif err != nil {\n\t\tf := worded"},
		{name: "a refused call stays known", file: pkg + "/acquire.go", old: "\tp.mu.Lock()\n\ta.forget()\n\tp.mu.Unlock()\n", new: ""},
		{name: "an attempt that was not carried out stays known", file: attempt, old: "if a.state = unsure; !f.Maybe {", new: "if a.state = unsure; false {"},
		{name: "an outage is borne for ever", file: wait, old: "outage.Failed(began, bears, f.Err)", new: "outage.Failed(began, 20*bears, f.Err)"},
		{name: "an outage counts from an earlier one", file: wait, old: "\tl.outage.Over()\n\tnext :=", new: "\tnext :="},
		{name: "a waiter gives up at the first failure", file: wait, old: "case l.p.answered.Load(), f.Passing:", new: "case f.Passing:"},
		{name: "a lease that was ended early is an error", file: wait, old: "case f.Ended:", new: "case false:"},
		{name: "an uncertain outcome is called certain", file: pkg + "/participant.go", old: "f.Err = fmt.Errorf(\"%w: %w\", driver.ErrUncertain, f.Err)", new: "f.Err = fmt.Errorf(\"%w: %w\", driver.ErrUnavailable, f.Err)"},
		{name: "a store does not get its handle back", file: attempt, old: "a.ref.Handle = ans.Handle", new: "_ = ans.Handle", test: "TestHandle"},
		{name: "a guarded lease is handed over without the store", file: lease, old: "l.spare = 0", new: "_ = l.spare", test: "TestGuard"},
		{name: "a shared lease leaves what is in doubt of the exclusive one", file: pkg + "/downgrade.go", old: "if late {", new: "if late && false {", test: "TestDowngradeInDoubt"},
		{name: "a look without an answer is uncertain", file: pkg + "/participant.go", old: "\tf.Maybe = false\n", new: "", test: "TestLooked"},
		{name: "a lease that is asked for back before its answer stays in the store", file: attempt, old: "a.p.inBackground(func() { a.p.decline(ref) })", new: "_ = ref", test: "TestAskedBackBeforeTheAnswer"},
		{name: "a waiter that is told that the name is free waits", file: event, old: "w.now = w.now || e.Grant.Free == 0", new: "", test: "TestLookNow"},
		{name: "a lease that is gone unseen is handed over", file: lease, old: "tokens > 0 && !l.p.caps.Expiry", new: "false", test: "TestHandOverOfWhatIsGone"},
		{name: "a name handed to a waiter that gives it back is declined", file: lease, old: "\tfound, err := p.store.End(ctx, l.ref, how)\n", new: "\tp.mu.Lock()\n\tl.forget()\n\tp.mu.Unlock()\n\tfound, err := p.store.End(ctx, l.ref, how)\n"},
		{name: "a message from before others were missed hands over", file: event, old: "l.waiter.granted, l.waiter.now = nil, true", new: "l.waiter.now = true", test: "TestGrantedBeforeMissed"},
		{name: "a lock of another library is adopted", file: pkg + "/adopt.go", old: "h.Token == 0 && store.Caps().Fencing", new: "false", test: "TestAdoptForeign"},
		{name: "an adopted lease is lost in quarantine", file: pkg + "/adopt.go", old: "err := open(ctx, a.store); err != nil { // else", new: "err := ctx.Err(); err != nil { // else", test: "TestAdoptedInQuarantine"},
		{name: "a first request without an answer is not repeated", file: wait, old: "if f.Maybe { // a repetition", new: "if false { // a repetition", test: "TestUncertainAtFirst"},
		{name: "a lease that a child has is handed over", file: lease, old: "l.keep() // the child", new: "// the child", test: "TestInherited"},
		{name: "a late grant is an error", file: pkg + "/acquire.go", old: "lates < maxLate:", new: "lates < 0:"},
		{name: "nobody undoes an attempt", file: attempt, old: "\tif f.Maybe {\n\t\ta.Discard()\n\t}\n", new: ""},
	} {
		if m.name, m.pkg = "participant: "+m.name, pkg; m.test == "" {
			m.test = "TestHistories"
		}
		mutants = append(mutants, m)
	}
}
