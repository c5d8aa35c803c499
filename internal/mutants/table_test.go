// SPDX-License-Identifier: Apache-2.0

package mutants

var mutants = []mutant{
	{
		name: "trust without the drift allowance",
		file: "lease.go",
		old:  "l.since.Add(l.ttl-driver.Drift(l.ttl))", new: "l.since.Add(l.ttl)",
		pkg: ".", test: "TestLeaseEndsAtItsDeadlineBeforeTheStoreLetsAnotherIn",
	},
	{
		name: "trust counted from the answer",
		file: "client.go",
		old:  "l.confirmed(grant.Since())", new: "l.confirmed(driver.Now())",
		pkg: ".", test: "TestDeadlineCountsFromTheSendingOfTheRequest",
	},
	{
		name: "deadline left to the renewal",
		file: "keep.go",
		old:  "due := min(l.deadline(), l.renewAt)", new: "due := l.renewAt",
		pkg: ".", test: "TestLeaseEndsAtItsDeadlineWhileARenewalHangs",
	},
	{
		name: "errors without a look at the clock",
		file: "lease.go",
		old:  "late := l.cause == nil && driver.Now() >= deadline", new: "late := false",
		pkg: ".", test: "TestPausedHolderFindsItsLeaseLost",
	},
	{
		name: "late renewal revives a released lease",
		file: "keep.go",
		old:  "if l.cause != nil {\n\t\tl.mu.Unlock()\n\t\treturn l.ended()\n\t}\n\tl.ttl = ttl", new: "l.ttl = ttl",
		pkg: ".", test: "TestReleaseBeatsALateRenewal",
	},
	{
		name: "failed extension to less is not believed",
		file: "keep.go",
		old:  "l.since, l.ttl = now, ttl\n", new: "_, _ = now, ttl\n",
		pkg: ".", test: "TestFailedExtendToLessIsBelieved",
	},
	{
		name: "grant after cancel is kept",
		file: "store.go",
		old:  "if err == nil {\n\t\terr = c.over(ctx)\n\t}\n", new: "",
		pkg: ".", test: "TestGrantAfterCancelIsPutBack",
	},
	{
		name: "waiter that gave up keeps its turn",
		file: "line.go",
		old:  "c.decline(ctx, w.req.Name, <-w.turn)", new: "<-w.turn",
		pkg: ".", test: "TestGrantInTheInstantOfCancelIsPutBack",
	},
	{
		name: "attempt of uncertain outcome is forgotten",
		file: "store.go",
		old:  "if grant != nil {\n\t\t\tc.undo(grant)\n\t\t}\n", new: "",
		pkg: ".", test: "TestUncertainAttemptIsUndone",
	},
	{
		name: "failed release is forgotten",
		file: "store.go",
		old:  "if err != nil && !errors.Is(err, ErrLost) {\n\t\tc.undo(grant)\n\t}\n", new: "",
		pkg: ".", test: "TestReleaseIsRepeatedInTheBackground",
	},
	{
		name: "leases passed on for ever",
		file: "line.go",
		old:  "ok && ln.passes < maxPasses && !c.closed", new: "ok && !c.closed",
		pkg: ".", test: "TestOthersGetTheirTurnAgainstABusyClient",
	},
	{
		name: "line stops at a lost lease",
		file: "lease.go",
		old:  "if l.inLine {\n\t\tl.client.advance(l.name)\n\t}\n", new: "",
		pkg: ".", test: "TestLostLeaseLetsTheLineGoOn",
	},
	{
		name: "late grant is taken for a lease",
		file: "store.go",
		old:  "err == nil && c.guarantees.Expiry && driver.Now() >=", new: "false && driver.Now() >=",
		pkg: ".", test: "TestGrantThatTookLongerThanItsTTLIsNoLease",
	},
	{
		name: "waiter asks under an id that is about to be undone",
		file: "store.go",
		old:  "again.Lease = newID()", new: "",
		pkg: "memlock", test: "TestConformance",
	},
	{
		name: "renewals without a bound",
		file: "keep.go",
		old:  "if r.workers < maxRenewals {", new: "if true {",
		pkg: ".", test: "TestHangingStoreGetsFewRenewalsAtOnce",
	},
	{
		name: "lock on a file that was deleted",
		file: "filelock/store.go",
		old:  "if ok && sameFile(f, path) {", new: "if ok {",
		pkg: "filelock", test: "TestPoliteCleaner",
	},
	{
		name: "token overwritten in place",
		file: "filelock/hold.go",
		old:  "slot := 1 - h.st.slot", new: "slot := h.st.slot",
		pkg: "filelock", test: "TestPowerCut",
	},
	{
		name: "token of a killed holder not made durable",
		file: "filelock/hold.go",
		old:  "!h.st.durable && h.st.rec.Token > 0", new: "false",
		pkg: "filelock", test: "TestPowerCut",
	},
	{
		name: "token returned before the disk has it",
		file: "filelock/hold.go",
		old:  "if err == nil {\n\t\terr = datasync(h.lock)\n\t}\n", new: "",
		pkg: "filelock", test: "TestPowerCut",
	},
	{
		name: "token not counted up",
		file: "filelock/record.go",
		old:  "return last + 1, nil", new: "return last, nil",
		pkg: "filelock", test: "TestCounter",
	},
	{
		name: "trying overtakes those who wait",
		file: "filelock/queue_linux.go",
		old:  "return q.alive(t) && !stopped(t.pid)", new: "return false",
		pkg: "filelock", test: "TestTryDoesNotOvertake",
	},
	{
		name: "cancelled waiter on files leaves its ticket",
		file: "filelock/acquire_linux.go",
		old:  "defer p.leave()", new: "",
		pkg: "filelock", test: "TestQuickCancel",
	},
}
