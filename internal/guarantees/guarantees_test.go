// SPDX-License-Identifier: Apache-2.0

// Package guarantees keeps the table of guarantees in the documentation in step with
// what the stores say of themselves, and with what their suites skip.
package guarantees

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// all are the suites there are, the one that stands for a store first.
var all = []suite{
	{name: "filelock", file: "filelock/testdata/wire.txt", title: "`filelock` (a directory)"},
	{name: "redislock", file: "redislock/testdata/wire.txt", title: "`redislock` (one Redis)"},
	{name: "redislock-cluster", file: "redislock/testdata/wire-cluster.txt"},
	{name: "redislock-deployments", file: "redislock/testdata/wire-deployments.txt"},
	{name: "redislock-efficiency", file: "redislock/testdata/wire-efficiency.txt", title: "`redislock` with `Mode: Efficiency`"},
	{name: "redlock", file: "redislock/redlock/testdata/wire.txt", title: "`redlock` (N independent Redis)"},
	{name: "redlock-memory", file: "redislock/redlock/testdata/wire-memory.txt"},
	{name: "zklock", file: "zklock/testdata/wire.txt", title: "`zklock` (ZooKeeper)"},
	{name: "etcdlock", file: "etcdlock/testdata/wire.txt", title: "`etcdlock` (an etcd cluster)"},
	{name: "pglock", file: "pglock/testdata/wire.txt", title: "`pglock` (PostgreSQL)"},
	{name: "memlock", file: "memlock/testdata/wire.txt", title: "`memlock` (memory)"},
	{name: "memlock-noexpiry", file: "memlock/testdata/wire-noexpiry.txt"},
}

// load reads all suites.
func load(t *testing.T) []suite {
	t.Helper()
	all := slices.Clone(all)
	for i := range all {
		text, err := os.ReadFile(filepath.Join(root, all[i].file))
		if err != nil {
			t.Fatal(err)
		}
		if err := all[i].parse(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestSkipsAreTheTable: a suite skips a check if, and only if, the table says no to
// what the check needs, or the list below the table does.
func TestSkipsAreTheTable(t *testing.T) {
	all := load(t)
	for _, s := range all {
		for _, wrong := range s.mistakes() {
			t.Error(wrong)
		}
		for g := range words {
			if s.has[g] && !s.column(all).has[g] {
				t.Errorf("%s: it has %s, to which the table says no", s.file, g)
			}
		}
	}
}

func TestTableIsInStep(t *testing.T) {
	all := load(t)
	if got := slices.Sorted(maps.Keys(words)); !slices.Equal(got, slices.Sorted(slices.Values(names()))) {
		t.Errorf("there are words for %q; want %q", got, names())
	}
	for _, doc := range docs {
		data, err := os.ReadFile(doc.path)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, ok := strings.Cut(string(data), begin)
		old, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no part between %q and %q", doc.path, begin, end)
		}
		text := render(doc.part, all, old)
		if os.Getenv("DRIVERTEST_UPDATE") != "" {
			if err := os.WriteFile(doc.path, []byte(before+begin+text+end+after), 0o666); err != nil {
				t.Fatal(err)
			}
		} else if text != old {
			t.Errorf("%s is not in step with the suites of the stores: run DRIVERTEST_UPDATE=1 go test ./internal/guarantees; it becomes\n%s", doc.path, text)
		}
		for _, wrong := range check(all, text) {
			t.Errorf("%s: %s", doc.path, wrong)
		}
	}
}

// TestEverySuiteIsListed looks for golden files that nobody reads here.
func TestEverySuiteIsListed(t *testing.T) {
	for _, pattern := range []string{"*/testdata/wire*.txt", "*/*/testdata/wire*.txt"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no golden file (%v)", pattern, err)
		}
		for _, f := range files {
			if !slices.ContainsFunc(all, func(s suite) bool { return filepath.Join(root, s.file) == f }) {
				t.Errorf("%s is not among the suites here", f)
			}
		}
	}
}

// TestChecksCanFail: each of the mistakes is told.
func TestChecksCanFail(t *testing.T) {
	const shared, slots, stays = "readers-share-and-keep-a-writer-out", "a-slot-is-one-of-as-many-as-there-are", "a-lease-without-expiry-stays"
	for want, change := range map[string]func(*suite){
		shared + " runs, although it needs":     func(s *suite) { s.has["Shared"] = false },
		shared + " is skipped as":               func(s *suite) { s.skipped[shared] = "no Shared" },
		slots + " is skipped as":                func(s *suite) { s.has["Fencing"], s.skipped[slots] = false, "no Fencing" },
		stays + " runs, although it needs":      func(s *suite) { s.skipped[stays] = "" },
		"it does not have the check " + slots:   func(s *suite) { delete(s.skipped, slots) },
		"it does not say whether there is FIFO": func(s *suite) { delete(s.has, "FIFO") },
		"there are":                             func(s *suite) { s.skipped["no-such-test"] = "" },
	} {
		all := load(t)
		s := all[len(all)-2]
		if s.name != "memlock" || s.mistakes() != nil {
			t.Fatalf("%s: %q; want memlock without a mistake", s.name, s.mistakes())
		}
		change(&s)
		if told := strings.Join(s.mistakes(), "\n"); !strings.Contains(told, want) {
			t.Errorf("told %q; want %q", told, want)
		}
	}
	for line, want := range map[string]string{"skip  x": "a skip without a reason", "maybe x": "cannot read"} {
		if err := new(suite).parse(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", line, err, want)
		}
	}
}

// TestTableFollows: a guarantee that is given, or is not given any more, changes the
// table; what is said of it goes, and must be said.
func TestTableFollows(t *testing.T) {
	all := load(t)
	noexpiry, mem := all[len(all)-1], all[len(all)-2]
	old := "[^memlock-Shared]: By a list of holders.\n[^suite-memlock]: No `Restart`, `Cut`, `Late`, `Left`.\n" +
		"[^suite-memlock-noexpiry]: No `Expiry`, `Keeps`, `Restart`, `Cut`, `Late`, `Left`.\n[^memlock-no-CrossHost]: One process.\n[^memlock-no-SurvivesRestart]: It is memory.\n"
	both := func(p *page, all []suite) { p.table(all); p.suites(all) }
	text := render(both, []suite{mem, noexpiry}, old)
	if wrong := check([]suite{mem, noexpiry}, text); wrong != nil || !strings.Contains(text, "yes[^memlock-Shared]") {
		t.Fatalf("%q is wrong with\n%s", wrong, text)
	}
	mem.has, noexpiry.has = maps.Clone(mem.has), maps.Clone(noexpiry.has)
	mem.has["Shared"] = false
	mem.has["Cut"], noexpiry.has["Queue"] = true, false
	text = render(both, []suite{mem, noexpiry}, text)
	if !strings.Contains(text, "**no**[^memlock-no-Shared]") || strings.Contains(text, "By a list") {
		t.Errorf("the table is\n%s", text)
	}
	want := []string{
		"the footnote memlock-no-Shared does not say why",
		"the footnote suite-memlock names Cut: true; want the opposite",
		"the footnote suite-memlock-noexpiry names Queue: false; want the opposite",
	}
	if wrong := check([]suite{mem, noexpiry}, text); !slices.Equal(wrong, want) {
		t.Errorf("told %q; want %q", wrong, want)
	}
}
