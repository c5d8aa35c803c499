// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// shows is, for each mutant, the assertions that catch it: testdata/caught.txt has
// lines of NAME, a tab, and the first line of what the test says, with * for what
// differs from run to run.
type shows struct {
	mu   sync.Mutex
	want map[string][]string

	learns bool // and writes down what a mutant is caught by
}

const caughtFile = "testdata/caught.txt"

func readCaught(t *testing.T) *shows {
	t.Helper()
	data, err := os.ReadFile(caughtFile)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	s := &shows{want: make(map[string][]string), learns: *update}
	for line := range strings.Lines(string(data)) {
		name, want, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			t.Fatalf("%s: a line without a tab: %q", caughtFile, line)
		}
		s.want[name] = append(s.want[name], want)
	}
	return s
}

// by returns "" if the result shows an assertion of the mutant's, else why not.
func (s *shows) by(name string, r result) (missed string) {
	if !r.failed {
		return "the test passed:\n" + r.out
	}
	said := assertions(r.out)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range said {
		if slices.ContainsFunc(s.want[name], func(want string) bool { return like(want, a) }) {
			return ""
		}
	}
	if s.learns && len(said) > 0 {
		s.want[name] = append(s.want[name], asPattern(said[0]))
		if err := s.write(); err != nil {
			return err.Error()
		}
		return ""
	}
	if len(s.want[name]) == 0 && len(said) > 0 {
		return "" // nobody has written down yet by what: -update does
	}
	return fmt.Sprintf("the test failed, but with none of %q:\n%s", s.want[name], r.out)
}

var (
	// What t.Error and its kind print, and what the runtime says of itself.
	assertion = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: (.*)$|^(?:panic|fatal error): (.*)$|^(WARNING: DATA RACE)$|^ +(FAIL: testdata/script/.*)$`)
	differs   = regexp.MustCompile(`(?:wiretest|clients|history)-[A-Z2-7]+|[0-9][0-9A-Za-zµ.:_+-]*|/tmp/[^ ,;:"')]*|\b[A-Z2-7]{20,}\b|\b[0-9a-f]{16,}\b`)
	setUp     = regexp.MustCompile(`test timed out after|^\d+ schedules, \d+ leases, |bless: store unavailable: CLUSTERDOWN|connect: connection refused|address already in use|^WORK=`)
)

// assertions returns what a test says that has failed. Time-outs of the test and servers
// that do not start are none.
func assertions(out string) []string {
	var said []string
	for _, m := range assertion.FindAllStringSubmatch(out, -1) {
		text := strings.TrimSpace(m[1] + m[2] + m[3] + m[4])
		if text = strings.ReplaceAll(text, "\t", " "); text != "" && !setUp.MatchString(text) {
			said = append(said, text)
		}
	}
	return said
}

// asPattern is what caughtFile has for an assertion.
func asPattern(said string) string { return beginning(differs.ReplaceAllString(said, "*")) }

// beginning returns the first words, which are the test's own and name the assertion:
// up to a struct or a list that is printed.
func beginning(text string) string {
	const enough = 48
	if i := strings.IndexAny(text, "{["); i >= 0 && i < enough {
		return text[:i+1] + "*"
	}
	if len(text) <= enough {
		return text
	}
	if i := strings.IndexAny(text[enough:], " *"); i >= 0 {
		return text[:enough+i] + "*"
	}
	return text
}

// like says whether text is what the pattern says, in which * is any text.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(text)
}

// write is called with mu held, after each addition: a run may be broken off. It leaves out mutants that
// are gone.
func (s *shows) write() error {
	there := make(map[string]bool)
	for _, m := range everyMutant() {
		there[m.name] = true
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.want)) {
		if !there[name] {
			continue
		}
		for _, want := range s.want[name] {
			fmt.Fprintf(&b, "%s\t%s\n", name, want)
		}
	}
	return os.WriteFile(caughtFile, []byte(b.String()), 0o644)
}
