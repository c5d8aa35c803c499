// SPDX-License-Identifier: Apache-2.0

package mutants

const (
	pureTrust = "internal/trust"
	pureLine  = "internal/line"
	allEvents = "TestEverySequenceOfEvents"
	allCalls  = "TestEverySequenceOfCalls"
)

// Mistakes in what decides, each of which the enumeration of all events has to find.
func init() {
	trust, renew, line := pureTrust+"/trust.go", pureTrust+"/renew.go", pureLine+"/line.go"
	for _, m := range []mutant{
		{name: "enumerated: trust for longer than the store", file: trust, old: "l.since.Add(l.terms.TTL - driver.Drift(l.terms.TTL))", new: "l.since.Add(l.terms.TTL)"},
		{name: "enumerated: an end that is left again", file: trust, old: "\tif l.cause != nil {\n\t\treturn false\n\t}\n\tl.state, l.cause", new: "\tl.state, l.cause"},
		{name: "enumerated: a late answer revives", file: renew, old: "\tcase l.cause != nil:\n\tcase !a.Own &&", new: "\tcase !a.Own &&"},
		{name: "enumerated: two requests at a time", file: renew, old: "\tcase !l.mayAsk(ttl):\n\t\treturn Request{}, ErrBusy\n\t}\n", new: "\t}\n"},
		{name: "enumerated: an heir that does not know of the request under way", file: trust, old: "since: l.since, asking: l.asking, asksFor:", new: "since: l.since, asksFor:"},
		{name: "enumerated: trust counted from the answer", file: renew, old: "l.confirm(a.Since, now, chance)", new: "l.confirm(now, now, chance)"},
		{name: "enumerated: an heir that trusts another's request", file: renew, old: "if a.Own {", new: "if true {"},
		{name: "enumerated: an heir that believes what it has not asked for", file: renew, old: "case !a.Own && l.terms.NoRenew:", new: "case false:"},
		{name: "enumerated: more heirs than tokens", file: trust, old: "tokens: l.tokens - 1", new: "tokens: l.tokens"},
		{name: "enumerated: heirs without an end", file: trust, old: "now < l.turn && ", new: ""},
		{name: "enumerated: an heir of what is suspect", file: trust, old: "now < l.Deadline() && l.state == Held\n", new: "now < l.Deadline()\n"},
		{name: "enumerated: an heir with a longer TTL than the store knows", file: trust, old: " || t.TTL > l.terms.TTL", new: ""},
		{name: "enumerated: a holder that is stuck is trusted", file: trust, old: "return min(l.limit, l.stuck,", new: "return min(l.limit,"},
		{name: "enumerated: an heir that is never stuck", file: trust, old: "\their.Report(now)\n", new: ""},
		{name: "enumerated: an heir with less than a TTL for its MinHold", file: trust, old: " || t.MinHold > 0", new: ""},
		{name: "enumerated: a lease that was lost is kept for MinHold", file: trust, old: "return l.cause == nil && now < l.least", new: "return now < l.least"},
		{name: "enumerated: a MinHold that MaxHold ends", file: trust, old: "\trest.limit, rest.stuck = Never, Never\n", new: ""},
		{name: "enumerated: a MinHold that nobody renews", file: trust, old: "if rest.terms.NoRenew = false; l.terms.NoRenew {", new: "if l.terms.NoRenew {"},
		{name: "enumerated: a MinHold without an end", file: renew, old: "if l.resting && now >= l.least {", new: "if false {"},
		{name: "enumerated: an heir with little left", file: trust, old: " || !fresh {", new: " || !fresh && false {"},
		{name: "enumerated: a grant that is given back twice", file: trust, old: "\t\tl.holds = 0\n", new: ""},
		{name: "enumerated: nobody renews after a failure", file: renew, old: "\tif !l.terms.NoRenew {\n\t\tpause", new: "\tif false {\n\t\tpause"},
		{name: "enumerated: nobody looks at the deadline", file: trust, old: "due := min(l.Deadline(), l.renewAt)", new: "due := l.renewAt"},
		{name: "enumerated: a downgrade of what others count on", file: trust, old: "if l.cause != nil || l.holds != 1 {", new: "if l.cause != nil || l.holds < 1 {"},
		{name: "enumerated: a downgrade begins a MaxHold anew", file: trust, old: "if l.limit != Never {", new: "if false {"},
		{name: "enumerated: an heir of what a child has", file: trust, old: "\tl.tokens = 0\n", new: ""},
		{name: "enumerated: a child gets what is another's by now", file: trust, old: "\tif l.cause != nil {\n\t\treturn false\n\t}\n\tl.tokens = 0\n", new: "\tl.tokens = 0\n"},
		{name: "enumerated: a hold of what has ended", file: trust, old: "if l.cause != nil || l.holds == 0 {", new: "if l.holds == 0 {"},
	} {
		m.pkg, m.test = pureTrust, allEvents
		mutants = append(mutants, m)
	}
	for _, m := range []mutant{
		{name: "enumerated: a call overtakes the line", file: line, old: "l.first != nil || !l.admits(k)", new: "!l.admits(k)"},
		{name: "enumerated: all stand at the store", file: line, old: "return k == Shared && l.kind == Shared", new: "return true"},
		{name: "enumerated: readers stay at home", file: line, old: "return k == Shared && l.kind == Shared", new: "return false"},
		{name: "enumerated: a writer waits for readers at home", file: line, old: "return k != Exclusive || l.holder == nobody", new: "return l.holder == nobody"},
		{name: "enumerated: an heir overtakes a call at the store", file: line, old: "if l.holder != h || l.asking > 0 {", new: "if l.holder != h {"},
		{name: "enumerated: the last inherits", file: line, old: "return l.first // those", new: "return l.last // those"},
		{name: "enumerated: a waiter is called twice", file: line, old: "\tl.ask(p.Kind)\n\tl.remove(p)\n", new: "\tl.ask(p.Kind)\n\tl.first = p.next\n"},
	} {
		m.pkg, m.test = pureLine, allCalls
		mutants = append(mutants, m)
	}
}
