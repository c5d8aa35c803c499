// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	etcd := func(name, file, old, new, test string) {
		mutants = append(mutants, mutant{name: "etcd: " + name, file: "etcdlock/" + file, old: old, new: new, pkg: "etcdlock", test: test})
	}
	etcd("a lease of another client is any that holds the name", "adopt.go",
		"e.kind != \"\" && e.record.Lease == ref.Lease", "e.kind != \"\"", "TestWire/a-lease-is-renewed-and-ended-by-its-id")
	etcd("a keepalive is believed", "renew.go",
		"\t\tp, err := l.proveInTime(ctx, b)\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif known && b.proven(p.term) {",
		"\t\tif known {\n\t\t\tb.since = b.asked", "TestStuckLeader")
	etcd("a renewal ends with its caller", "renew.go",
		"context.WithTimeout(l.s.ctx, b.time())", "context.WithTimeout(l.s.ctx, b.time()/3)", "TestRenewalGoesOn")
	etcd("a keepalive for an etcd lease that was replaced counts", "renew.go",
		"err == nil && l.writes != writes", "err == nil && l.writes != writes && false", "TestRewriteBesideRenewal")
	etcd("a read in another term proves a keepalive", "backing.go",
		"if term == b.term {", "if true {", "TestStuckLeaderReadsElsewhere")
	etcd("what was given up is deleted only", "end.go",
		"l.s.client.Revoke(rctx, l.named)", "l.s.client.Delete(rctx, l.key)", "TestLateCreate")
	etcd("a write of unknown outcome is forgotten", "renew.go",
		"|| l.dirty {", "{", "TestLateExtend")
	etcd("a release that found nothing is one", "end.go",
		"found = resp.Deleted > 0", "found = resp.Deleted >= 0", "TestDeletedKey")
	etcd("a lease whose release found nothing leaves a spare", "end.go",
		"if found && !again && !doubt {", "if !again && !doubt {", "TestBrokenLeavesNoSpare")
	etcd("a release that may be carried out late leaves a spare", "end.go",
		"if found && !again && !doubt {", "if found && !doubt {", "TestLateRelease")
	etcd("reserved tokens are others' too", "token.go",
		"return uint64(rev) << tokenBits", "return uint64(rev)", "TestWire/a-kept-lease-has-tokens-to-spare")
	etcd("revisions that are no tokens are used", "token.go",
		"if rev < 0 || rev > maxRevision {", "if rev < 0 {", "TestRevisionsRunOut")
	etcd("any spare is fresh", "backing.go",
		"now.Sub(b.since) < ttl/freshPart", "true", "TestFresh")
	etcd("a keepalive without a proof makes a spare fresh", "backing.go",
		"return b.since == b.asked && now.Sub(b.since)", "return now.Sub(max(b.since, b.asked))", "TestFresh")
	etcd("a spare that has gone is a failure", "ask.go",
		"} else if l.fresh {", "} else {", "TestSpareThatIsGone")
	etcd("a repeated attempt is another", "ask.go",
		"again := l != nil && l.over() == nil", "again := false", "TestRepeatedAttempt")
	etcd("each lease has a key of its own", "keys.go",
		"kind + \"/\" + hex(int64(backing))", "kind + \"/\" + hex(int64(backing)) + req.Lease", "TestKeysAreUsedAgain")
	etcd("a key that is gone is not missed", "look.go",
		"if len(own) != 1 || own[0].CreateRevision != l.rev {", "if len(own) > 1 {", "TestExpiryWhileWaiting")
	etcd("a waiter trusts what it saw before its watch", "watch.go",
		"if resp.Created {", "if false {", "TestReleaseBeforeTheWatch")
	etcd("others are not in the way", "ask.go",
		"pb.Compare_LESS, rev+1)", "pb.Compare_GREATER, -1)", "TestWire/a-held-name-is-refused-and-shows-its-holder")
	etcd("names with a slash are names of others", "keys.go",
		"escaper = strings.NewReplacer(\"%\", \"%25\", \"/\", \"%2F\")", "escaper = strings.NewReplacer(\"%\", \"%25\")", "FuzzKeys")
	etcd("dead connections are kept", "links.go",
		"driver.Now().Sub(sent) < silence {", "true {", "TestDeadConnection")
	etcd("nobody listens", "ask.go",
		"\tl.s.listen()", "\t_ = l.s.listen", "TestRevoked")
	etcd("a full server has refused what it says it has", "errors.go",
		"f.Maybe = writes && h.err == rpctypes.ErrNoSpace", "f.Maybe = false", "TestFullServer")
	etcd("a join that may be carried out late is forgotten", "end.go",
		"if err == nil && doubt {", "if err == nil && doubt && false {", "TestLateRejoin")
	etcd("what went between look and count wakes nobody", "watch.go",
		"return true, w.count(seen)", "return true, w.count(seen) && false", "TestCountAfterLook")
	etcd("keepalives go on to a member that is behind", "pulse.go",
		"if b.resp.Header.RaftTerm < term {", "if term = 0; b.resp.Header.RaftTerm < term {", "TestStuckLeaderCostsNoLease")
	etcd("trust counts from the answer to a keepalive", "pulse.go",
		"b.asked, b.term = now,", "b.asked, b.term = max(now, driver.Now()),", "TestTrustFromSending")
	etcd("trust counts from the making of an etcd lease", "backing.go",
		"since: now, asked: now, mark", "since: max(now, driver.Now()), asked: max(now, driver.Now()), mark", "TestTrustFromSending")
	etcd("a late write binds the key to another etcd lease", "rewrite.go",
		"[]*pb.Compare{{Key: []byte(l.key), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: l.mod}}}",
		"[]*pb.Compare{created(l.key, \"\", pb.Compare_EQUAL, l.rev)}", "TestLateRewrite")
	etcd("an etcd lease that is older than a renewal replaces what was renewed", "rewrite.go",
		" && !l.newerThan(b)", "", "TestExtendAfterRenewal")
	etcd("reads without an answer keep the others waiting", "proof.go",
		"time.AfterFunc(requestTimeout,", "time.AfterFunc(time.Hour,", "TestLateProofsMakeRoom")
	etcd("a grpc-proxy is taken for a member", "open.go",
		"return err == nil && resp.Header == nil", "return err == nil && resp == nil", "TestGRPCProxy")
	etcd("Close forgets the spares", "store.go",
		"\ts.giveBack(spares)", "\t_ = spares", "TestCloseLeavesNoLease")
	etcd("requests go on after Close", "request.go",
		"s.limits.next(s.ctx)", "s.limits.next(context.Background())", "TestRequestEnds")
	etcd("requests go on after their caller has left", "request.go",
		"context.AfterFunc(ctx, cancel)", "context.AfterFunc(rctx, cancel)", "TestRequestEnds")
	etcd("all requests share one end", "request.go",
		"l.ctx == nil || now >= l.until", "l.ctx == nil || now < 0", "TestRequestsShareTheirEnd")
	etcd("the name of the server is not looked at", "url.go",
		"grpc.WithAuthority(a.opts.TLS.ServerName)", "grpc.EmptyDialOption{}", "TestServerName")
	etcd("a login shows the old token", "session.go",
		"token == \"\" || ctx.Value(loggingIn{}) != nil {", "token == \"\" {", "TestTokensExpire")
	etcd("watches stay on the stream of the first login", "session.go",
		"strconv.Itoa(serial)", "strconv.Itoa(0*serial)", "TestWatchAfterLogin")
	etcd("seconds are rounded down", "keys.go",
		"(ttl + time.Second - 1) / time.Second", "ttl / time.Second", "TestFractionsOfSeconds")
	etcd("a renewal depends on what is shown", "rewrite.go",
		"l.written = err == nil || refused(err) != nil // refused: or rather, not worth another try", "l.dirty = err != nil", "TestFullServerKeepsLeases")
	etcd("what nobody owns is left", "tidy.go",
		"s.sweep(ctx, string(key), id)", "_ = s.sweep", "TestStrays")
	etcd("what somebody owns is swept", "tidy.go",
		"l != nil && l.key == key {", "l != nil && false {", "TestStrays")
	etcd("what undoes a lease ends the next one", "end.go",
		"(!how.Doubt || l.isSpared())", "!how.Doubt", "TestLateUndo")
	etcd("a place in the queue is forgotten when a look fails", "ask.go",
		"errors.As(err, &f) && l.rev != 0", "errors.As(err, &f) && false", "TestWire/a-slot-is-one-of-as-many-as-there-are")
	etcd("an etcd lease with strays is used again", "tidy.go",
		"	s.tainted[id] = true\n	for secs, all := range s.spares {", "	for secs, all := range map[int64][]*backing{} {", "TestStrays")
	etcd("locks of the concurrency package are not seen", "layout.go",
		"(kind != \"\" || l.mixed)", "kind != \"\"", "TestMutexOfConcurrency")
	etcd("a name has another key than that of the other library", "layout.go",
		"l.mixed && escape(name) != name", "l.mixed && name == \"\"", "TestPatternIsForOneKind")
	etcd("a client with a namespace is taken", "open.go",
		"reflect.TypeOf(client.KV) != reflect.TypeOf(kv)", "client.KV == nil && kv == nil", "TestNamespaceIsRefused")
	etcd("all leases of another library's session have one id", "keys.go",
		`backing+"-"+strconv.FormatInt(kv.CreateRevision, 10)`, "backing", "TestBreakOfAnotherLibrary")
	etcd("news are left for another library", "inspect.go",
		`if victim.kind != "" {`, "if true {", "TestBreakOfAnotherLibrary")
	etcd("with a pattern a name is unescaped", "layout.go",
		"if !l.mixed {", "if true {", "TestPatternShowsItsNames")
	etcd("locks may be among our other keys", "layout.go",
		"strings.HasPrefix(head, prefix) || strings.HasPrefix(prefix, head)", "head == prefix", "TestPatternIsForOneKind")
	etcd("readers are let in beside the concurrency package", "store.go",
		"Shared: !s.layout.mixed,", "Shared: true,", "TestPatternIsForOneKind")
	etcd("who was in the way is forgotten", "wait.go",
		"s.contended[name] = true", "delete(s.contended, name)", "TestCrowdedName")
}
