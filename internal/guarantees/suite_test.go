// SPDX-License-Identifier: Apache-2.0

package guarantees

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// suite is one run of package wiretest, as its golden file has it.
type suite struct {
	name  string // what the names of its footnotes begin with
	file  string
	title string // of a column of the table; empty if it is another suite of the store before it

	has     map[string]bool   // fields of driver.Caps and hooks
	failed  map[string]bool   // tests that the store does not pass; the file says why
	skipped map[string]string // why, by the name of the check: "no X", or "X"; "" if it runs
}

// parse reads a golden file.
func (s *suite) parse(text string) error {
	s.has, s.skipped, s.failed = make(map[string]bool), make(map[string]string), make(map[string]bool)
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch word {
		case "#":
		case "yes", "no":
			s.has[rest] = word == "yes"
		case "run":
			s.skipped[rest] = ""
		case "fail":
			name, _, _ := strings.Cut(rest, " (")
			s.failed[name] = true
		case "skip":
			name, why, ok := strings.Cut(strings.TrimSuffix(rest, ")"), " (it has ")
			if !ok {
				return fmt.Errorf("%s: a skip without a reason: %q", s.file, line)
			}
			s.skipped[name] = why
		default:
			return fmt.Errorf("%s: cannot read %q", s.file, line)
		}
	}
	return nil
}

// mistakes says where the tests that run and those that are skipped are not those
// that should be, by what the store has.
func (s suite) mistakes() (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, s.file+": "+fmt.Sprintf(format, args...))
	}
	for _, g := range names() {
		if _, known := s.has[g]; !known {
			say("it does not say whether there is %s", g)
		}
	}
	for _, test := range wiretest.Checks {
		if s.failed[test.Name] {
			continue // the file says why
		}
		why, known := s.skipped[test.Name]
		lacks := func(need string) bool {
			what, not := strings.CutPrefix(need, "no ")
			return s.has[what] == not
		}
		// A check is skipped for want of the opposite of what it needs.
		need, ok := strings.CutPrefix(why, "no ")
		if !ok {
			need = "no " + why
		}
		switch {
		case !known:
			say("it does not have the check %s", test.Name)
		case why == "" && slices.ContainsFunc(test.Needs, lacks):
			say("%s runs, although it needs %q", test.Name, test.Needs)
		case why != "" && !(slices.Contains(test.Needs, need) && lacks(need)):
			say("%s is skipped as the store has %s, which is wrong or does not matter", test.Name, why)
		}
	}
	if len(s.skipped) > len(wiretest.Checks) {
		say("it has %d checks; there are %d", len(s.skipped), len(wiretest.Checks))
	}
	return wrong
}

// column returns the suite that stands in the table for the store of s.
func (s suite) column(all []suite) suite {
	i := slices.IndexFunc(all, func(o suite) bool { return o.file == s.file })
	for all[i].title == "" {
		i--
	}
	return all[i]
}

// lacks returns what s has not and a check needs, although the table says nothing of it.
func (s suite) lacks(all []suite) (lacks []string) {
	table := s.column(all)
	for what, ok := range s.has {
		_, guarantee := words[what]
		needs := func(c wiretest.Check) bool { return slices.Contains(c.Needs, what) }
		if !ok && slices.ContainsFunc(wiretest.Checks, needs) && !(guarantee && !table.has[what]) {
			lacks = append(lacks, what)
		}
	}
	slices.Sort(lacks)
	return lacks
}
