// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	const pkg = "driver/drivertest/linear"
	model := func(name, file, old, new, test string) mutant {
		return mutant{name: "linear: " + name, file: pkg + "/" + file, old: old, new: new, pkg: pkg, test: test}
	}
	mutants = append(mutants,
		mutant{name: "the address of a closed link is anybody's", file: "driver/drivertest/link.go",
			old: "t.Cleanup(release)", new: "release()", pkg: "driver/drivertest", test: "TestLinkKeepsItsAddress"},
		model("others are no obstacle", "model.go", "if !s.admits(o.kind, s.firm) || o.rank", "if o.rank", "TestBadHistories"),
		model("tokens are not looked at", "model.go", "o.rank >= 0 && o.rank != s.grants", "o.rank < -1", "TestBadHistories"),
		model("trust is not looked at", "model.go", "case trusted:\n\t\treturn s.has(o.lease), s", "case trusted:\n\t\treturn true, s", "TestBadHistories"),
		model("what cannot be broken may be held", "model.go", "return !strings.ContainsRune(s.firm, rune(o.lease)), s", "return true, s", "TestBadHistories"),
		model("who is refused needs no reason", "model.go", "return !s.admits(o.kind, s.firm+s.loose), s", "return true, s", "TestBadHistories"),
		model("a release ends what is over", "model.go", "return s.has(o.lease), s.without(o.lease)", "return true, s.without(o.lease)", "TestBadHistories"),
		model("what is not found out is good", "check.go", "case porcupine.Unknown:\n", "case porcupine.Unknown:\n\t\treturn nil\n\tcase \"never\":\n", "TestSearchThatTakesTooLong"),
		model("nobody is alone", "record.go", "return n == 1", "return n < 0", "TestBrokenDrivers/refused_by_nobody"),
		mutant{name: "linear: slots without a limit", file: "memlock/lock.go",
			old: "h.slots == req.Slots && len(l.holders) < req.Slots", new: "h.slots == req.Slots", pkg: pkg, test: "TestMemlock"},
		mutant{name: "linear: tokens stand still", file: "memlock/lock.go",
			old: "l.token++", new: "l.token = 7", pkg: pkg, test: "TestMemlock"},
	)
}
