// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	const pkg = "cmd/pawl"
	command := func(name, file, old, new, test string) mutant {
		return mutant{name: name, file: "cmd/pawl/" + file, old: old, new: new, pkg: pkg, test: test}
	}
	fedBack := command("what a command is told of its store changes the locks in it", "environ.go",
		`"PAWL_LEASE_STORE="+r.store.url.String(),`, `"PAWL_STORE="+r.store.url.String(),`, "TestNestedTakesTheSameLock")
	fedBack.also = []edit{{"cmd/pawl/environ.go", `"PAWL_LEASE", "PAWL_LEASE_STORE",`, `"PAWL_LEASE", "PAWL_STORE",`}}
	mutants = append(mutants, fedBack,
		command("passwords are kept from those inside as well", "environ.go",
			"_ = os.Setenv(key, value)", "_ = value", "TestNestedPassword"),
		command("the command inherits passwords", "environ.go",
			"!r.keepPasswords && canKeep()", "false && canKeep()", "TestNestedPassword"),
		command("the lock is given back when the command itself has ended", "supervise.go",
			"|| s.leftovers == releaseLeftovers {", "|| s.leftovers != killLeftovers {", "TestLeftovers"),
		command("what is released has the lock's files", "internal/job/command_unix.go",
			"if private {", "if false && private {", "TestLeftoversReleased"),
		command("a guard that adopts nobody", "internal/job/guardmain_unix.go",
			"\t\tadoptOrphans()\n", "", "TestLeftoversOfAKilledWrapper"),
		command("a wrapper that adopts nobody", "internal/job/start_unix.go",
			"\tadoptOrphans()\n", "", "TestKilledGuard"),
		command("a killed guard is not replaced", "internal/job/guard_unix.go",
			"if j.startGuard(j.nextGuard) == nil {", "if true {", "TestKilledGuard"),
		command("the next guard forgets what it has seen", "internal/job/strays_linux.go",
			"t.known = t.find(t.member)", "_ = t.find(t.member)", "TestKilledGuard"),
		command("a look at the processes tells whether any is left", "internal/job/adopt_unix.go",
			"if j.reap(0) {", "if j.targets().empty() {", "TestRestlessLeftovers"),
		command("the last child that was seen was the last", "internal/job/reap_linux.go",
			"if _, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {",
			"if dead, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); err != syscall.ECHILD && dead == 0 {", "TestRestlessLeftovers"),
		command("a guard that was stopped stays so", "internal/job/guard_unix.go",
			"_ = syscall.Kill(g.pid, syscall.SIGCONT)", "_ = g", "TestStoppedGuard"),
		mutant{name: "a path that is misspelt is made", file: "filelock/open.go",
			old: "err = os.Mkdir(dir, 0o700)", new: "err = os.MkdirAll(dir, 0o700)", pkg: "filelock", test: "TestOpenMakesOneDirectory"},
		mutant{name: "a shared directory is made by whoever comes first", file: "filelock/open.go",
			old: "err = makeDir(dir, opts.AllowShared)", new: "err = makeDir(dir, false)", pkg: "filelock", test: "TestSharedIsNotMade"},
		mutant{name: "a flock that is not on record is nobody's", file: "filelock/inspect.go",
			old: "info.Holders = s.unknown(enc, here, st)", new: "_ = s.unknown", pkg: "filelock", test: "TestHoldersWithoutRecord"},
		mutant{name: "damaged lock files are left out", file: "filelock/inspect.go",
			old: "damaged = errors.Join(damaged, err)", new: "_ = damaged", pkg: "filelock", test: "TestDamagedIsListed"},
		command("to break nothing is a success", "break.go",
			"return nil, b.nobody()", "return nil, nil", "TestScript"),
		command("the whole command line is published", "run.go",
			"shown := publicCommand(r.command)", "shown := commandLine(r.command)", "TestScript"),
		command("whatever follows a program is its subcommand", "text.go",
			"slices.Contains(withSubcommands, program) &&", "(slices.Contains(withSubcommands, program) || true) &&", "TestPublicCommand"),
		command("whoever waits looks once", "wait.go",
			"if watch.servers {", "if false && watch.servers {", "TestWaitingForAStoreThatIsGone"),
		mutant{name: "a store for each working directory", file: "filelock/url.go",
			old: `case !strings.HasPrefix(dir, "/") && !filepath.IsAbs(filepath.FromSlash(dir)):`, new: `case false && !strings.HasPrefix(dir, "/"):`, pkg: "cmd/pawl", test: "TestScript"},
	)
}
