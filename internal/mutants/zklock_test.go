// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	const pkg = "zklock"
	zk := func(name, file, old, new, test string) mutant {
		return mutant{name: name, file: "zklock/" + file, old: old, new: new, pkg: pkg, test: test}
	}
	mutants = append(mutants,
		mutant{name: "a refused extension is taken for an outage", file: "keep.go",
			old: "if l.state != Suspect && !refused {", new: "if _ = refused; l.state != Suspect {", pkg: ".", test: "TestRefusedExtendLeavesTheLeaseAsItWas"},
		zk("renewals that any server can confirm", "grant.go",
			"since, err := s.confirmed(ctx, g.n.path())", "since := driver.Now()\n\t_, _, err := s.conn.Exists(g.n.path())", "TestCutFollower"),
		zk("trust although the leader may not have heard of the session", "trust.go",
			"if sent.Add(ttl) > s.counted.Add(s.timeout) {", "if false {", "TestTrust"),
		zk("sessions no longer than the TTL", "trust.go",
			"d := ttl + max(ttl/3, 2*s.tick)", "d := ttl", "TestTimeouts"),
		zk("lost answers to create are taken for refusals", "node.go",
			"n.maybe = unknown(m.err)", "n.maybe = false", "TestLostAnswerToCreate"),
		zk("nodes that a caller who left has asked for are forgotten", "node.go",
			"return (n.asked != nil || n.maybe || n.name != \"\")", "return (n.name != \"\")", "TestLostAnswerToCreate"),
		zk("answers are read before the watches are set again", "link.go",
			"if watches == 0 {", "if watches >= 0 {", "TestLinkHoldsAnswersBack"),
		zk("a lost answer to delete is taken for a loss", "node.go",
			"before := n.deleting", "before := false", "TestLostAnswerToDelete"),
		zk("a lost answer to delete is taken for its release, whoever has broken it", "node.go",
			"return by == nil, nil", "return by == by, nil", "TestBreakBeforeTheRelease"),
		zk("waiters whose session has ended give up", "queue.go",
			"return errors.Is(err, errGone) || errors.Is(err, errSession)", "return errors.Is(err, errGone)", "TestExpiryWhileWaiting"),
		zk("waiters watch everybody", "line.go",
			"return l[i-1 : i]", "return l[:i]", "TestContention"),
		zk("waiters for a slot watch one", "line.go",
			"return l[max(0, i-k.slots):i]", "return l[i-1 : i]", "TestNobodyIsForgotten"),
		zk("each attempt sets a watch of its own", "watch.go",
			"if !fresh {", "if false {", "TestWatchesDoNotAddUp"),
		zk("numbers that have run out are used", "line.go",
			"if c.seq < 0 || c.seq >= maxSeq {", "if false {", "TestOverflow"),
		zk("tokens are the numbers of the nodes", "queue.go",
			"g.begin(uint64(own.stat.Czxid),", "g.begin(func() uint64 { c, _ := parseChild(g.n.name); return uint64(c.seq) + 1 }(),", "TestTokensAcrossParents"),
		zk("what is not renewed lives as long as its session", "lost.go",
			"left := g.expires.Sub(driver.Now())", "left := time.Hour", "TestConformance/expiry-frees-the-name"),
		zk("a new session is taken for the old one", "session.go",
			"(known == 0 || known == id)", "(known == 0 || known != 0)", "TestSilentNewSession"),
		zk("sessions that get no answer are kept for ever", "session.go",
			"case driver.Now().Sub(s.lastAnswer()) > 3*s.granted():", "case false:", "TestLostData"),
		zk("a repeated attempt holds twice", "try.go",
			"(i >= l.holders() || g.repeated(l[:i]))", "i >= l.holders()", "TestConformance/repeated-attempt-of-a-slot-takes-one"),
		zk("a round confirms what is gone", "round.go",
			"r.paths[paths[i]] = false", "_ = r.paths[paths[i]]", "TestRoundTellsWhoIsGone"),
		zk("trust counts from the end of a round", "round.go",
			"\t\tclose(r.done)", "\t\tr.sent = driver.Now()\n\t\tclose(r.done)", "TestTrustFromSending"),
		zk("trust counts from the answer to create", "node.go",
			"\tn.asked = make(chan made, 1)\n", "\tdefer func() { n.sent = driver.Now() }()\n\tn.asked = make(chan made, 1)\n", "TestTrustFromSending"),
		zk("slots that no name can tell", "line.go",
			"if k.slots > most {", "if k.slots < -most {", "TestTooManySlots"),
	)
}
