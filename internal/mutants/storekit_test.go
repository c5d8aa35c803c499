// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	const pkg = "driver/storekit"
	kit := func(name, file, old, new, test string) mutant {
		return mutant{name: "storekit: " + name, file: pkg + "/" + file, old: old, new: new, pkg: pkg, test: test}
	}
	mutants = append(mutants,
		kit("a part of the password is a host", "url.go", `strings.ContainsAny(tail, "@#")`, `strings.ContainsAny(tail, "#")`, "TestParseURL"),
		kit("a port may be a word", "url.go", "one, err := url.Parse(\"any://\" + host)\n\t\tif err != nil {", "one, err := url.Parse(\"any://\" + host)\n\t\tif err != nil {\n\t\t\tone, err = &url.URL{Host: host}, nil\n\t\t}\n\t\tif err != nil {", "TestParseURL"),
		kit("what cannot be read is left out", "url.go", "\t\treturn ErrQuery\n\t}\n\tvar names", "\t\terr = nil\n\t}\n\tvar names", "TestReadQuery"),
		kit("the environment goes before the options", "url.go", "cmp.Or(*password, os.Getenv(env))", "cmp.Or(os.Getenv(env), *password)", "TestReadUser"),
		kit("the rest of the TLS options is lost", "tls.go", "conf = conf.Clone()", "conf = &tls.Config{ServerName: conf.ServerName}", "TestServerName"),
		kit("a claim counts from its arrival", "term.go", "began := last.Sent.Add(passed - driver.Drift(passed))", "began := c.Heard", "TestClaimBegan"),
		kit("a claim counts from when it began, whatever the drift", "term.go", "last.Sent.Add(passed - driver.Drift(passed))", "last.Sent.Add(passed)", "TestClaimBegan"),
		kit("the server's clock is believed when it was set forward", "term.go", "passed >= 0 && began <= c.Heard", "passed >= 0", "TestClaimBegan"),
		kit("a claim from before the last look is trusted", "term.go", "passed >= 0 && ", "", "TestClaimBegan"),
		kit("a claim is trusted for longer than the TTL", "term.go", "min(c.For, ttl)", "c.For", "TestClaimTerm"),
		kit("a claim is trusted that is nearly over", "term.go", "ok && t.end().Sub(now) >= t.TTL/2", "ok", "TestClaimTerm"),
		kit("a claim is taken for a whole TTL", "term.go", "return t.end().Add(driver.Drift(ttl) - ttl)", "return t.Sent", "TestClaimTerm"),
		kit("a term is trusted to its end, whatever the drift", "term.go", "t.TTL - driver.Drift(t.TTL)", "t.TTL", "TestClaimTerm"),
		kit("a step of the clock ends a term that has begun after it", "term.go", "t.Heard < now && ", "", "TestStepped"),
		kit("a step of the clock ends what may have been left", "term.go", "now.Sub(t.Heard) > t.TTL-step", "now.Sub(t.Heard) >= t.TTL-step", "TestStepped"),
		kit("a step of the clock ends terms that are not known", "term.go", "t.TTL > 0 && ", "", "TestStepped"),
		kit("a loss is told to nobody", "loss.go", "\t\tgo l.notify(why)\n", "", "TestLoss"),
		kit("a loss is told to whoever gives back", "loss.go", "func (l *Loss) Hush() { l.notify = nil }", "func (l *Loss) Hush() {}", "TestLoss"),
		kit("the last loss counts", "loss.go", "\tif l.why == nil {\n\t\tl.why = why\n\t}", "\tl.why = why", "TestLoss"),
		kit("a lease without an answer is asked for once", "confirm.go", "for range confirmTimes {", "for range 1 {", "TestConfirm"),
		kit("leases are asked for all at a time", "confirm.go", "make(chan struct{}, atOnce)", "make(chan struct{}, len(leases))", "TestConfirm"),
		kit("whoever has broken a lease is not told", "record.go", "lost.By, lost.Why = &r.Holder, r.Why", "_ = lost", "TestHowLost"),
		kit("what came before anybody heard is never told", "outbox.go", "for _, v := range o.kept {", "for _, v := range o.kept[:0] {", "TestOutbox"),
		kit("one client's holders have one record", "record.go", "m.holder != req.Holder || ", "", "TestRecords"),
		kit("why one lease is wanted is why all are", "record.go", "m.why != req.Why || ", "", "TestRecords"),
		kit("whether a lease may be kept is not said again", "record.go", " || m.keeps != keeps {", " {", "TestRecords"),
	)
}
