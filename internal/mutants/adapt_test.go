// SPDX-License-Identifier: Apache-2.0

package mutants

import "path"

func init() {
	adapt := func(name, file, old, new, test string) {
		file = "adapt/" + file
		mutants = append(mutants, mutant{name: "adapt: " + name, file: file, old: old, new: new, pkg: path.Dir(file), test: test})
	}
	adapt("local turn for two", "turns.go",
		"u = &turn{taken: make(chan struct{}, 1)}", "u = &turn{taken: make(chan struct{}, 2)}", "TestMutexAfterALoss")
	adapt("mutex that keeps a loss to itself", "mutex.go",
		"if errors.Is(err, pawl.ErrLost) || ", "if ", "TestMutexAfterALoss")
	adapt("mutex that may be unlocked twice", "mutex.go",
		" || errors.Is(err, pawl.ErrReleased) {", " {", "TestMutexPanicsIfItIsNotLocked")
	adapt("failed lock that keeps its turn", "turns.go",
		"if lease == nil { // also if a driver panics", "if false {", "TestMutexPanicsIfTheStoreCannotBeAsked")
	adapt("scheduled run that is given back at once", "schedule.go",
		"pawl.MinHold(minHold)", "pawl.MinHold(0 * minHold)", "TestGocronMinHold")
	adapt("scheduled run whose loss is not told", "gocron.go",
		"\tif err != nil {\n\t\ttell(r.report, r.name, err)\n\t}\n", "", "TestGocronLoss")
	adapt("scheduled run that counts although its lease was lost", "schedule.go",
		"ended := lease.Err()", "ended := error(nil)", "TestGocronLocker")
	adapt("cron job that is not stopped", "cron.go",
		"return j.Do(working, lease)", "_ = working\n\treturn j.Do(ctx, lease)", "TestCronJobStopsWhenItsLeaseIsLost")
	adapt("go-zero lock that never expires", "gozero.go",
		"pawl.MaxHold(l.expire)", "pawl.MaxHold(0*l.expire)", "TestGoZeroLock")
	adapt("go-zero lock that counts after a loss", "gozero.go",
		"if l.lease.Err() == nil {", "if true {", "TestGoZeroLock")
	adapt("kratos server that leads after Stop", "kratos.go",
		"stopped := s.stopped", "stopped := false", "TestKratosServerEnds")
	adapt("elector that trusts its goroutine", "elector.go",
		"if problem = lease.Err(); problem == nil {", "if problem = nil; problem == nil {", "TestElectorLooksAtItsLease")
	adapt("elector that gives up in an outage", "elector.go",
		"!errors.Is(err, pawl.ErrUnavailable) && ", "", "TestElectorThatCannotBegin")
	adapt("lock lease that is not looked at", "certmagic.go",
		"lost := lease.Err()", "lost := error(nil)", "TestCertMagicRenewal")
	adapt("renewal for a lock that was given back", "turns.go",
		"if u == nil || u.lease != old {", "if u == nil {", "TestCertMagicUnlockBesideARenewal")
	adapt("request whose context outlives the lease", "adapthttp/middleware.go",
		"ctx, cancel := lease.Context(r.Context())", "ctx, cancel := context.WithCancel(r.Context())", "TestNoSuccessAfterALoss")
	adapt("success that is answered after a loss", "adapthttp/response.go",
		"if err := a.lost(); err != nil {", "if err := a.lost(); err != nil && false {", "TestNoSuccessAfterALoss")
	adapt("success before the lease is given back", "adapthttp/middleware.go",
		"answered.finish(err)", "answered.finish(lease.Err())", "TestNoSuccessAfterALossHeardOfLate")
	adapt("response that looks complete after a loss", "adapthttp/response.go",
		"panic(http.ErrAbortHandler)", "_ = http.ErrAbortHandler", "TestBrokenOffAfterALoss")
	adapt("holder shown to strangers", "adapthttp/middleware.go",
		"show = Anonymous", "show = Everything", "TestLocked")
	adapt("store's words shown to strangers", "adapthttp/middleware.go",
		"default:\n\t\thttp.Error(w, \"this request cannot be locked\",", "default:\n\t\thttp.Error(w, err.Error(),", "TestNoLock")
}
