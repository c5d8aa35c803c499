// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// missedBy returns "" if what the test said is what the mutant is known by, else why not.
func (m *mutant) missedBy(r result) string {
	if !r.failed {
		return "the test passed:\n" + r.out
	}
	said := assertions(r.out)
	for _, a := range said {
		if slices.ContainsFunc(m.says, func(says string) bool { return like(says, a) }) {
			return ""
		}
	}
	if len(said) > 0 && *update && m.table != "" {
		if err := m.learn(asPattern(said[0])); err != nil {
			return err.Error()
		}
		return ""
	}
	if len(said) > 0 && len(m.says) == 0 {
		return "" // its table does not say yet what: -update does
	}
	return fmt.Sprintf("the test failed, but said none of %q:\n%s", m.says, r.out)
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

// asPattern is what a table has for an assertion.
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
