// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// missedBy returns "" if the test failed with a message of the mutant's table, and otherwise the reason why
// the mutant was missed.
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
		return "" // the table has no message yet: -update adds one
	}
	return fmt.Sprintf("the test failed, but said none of %q:\n%s", m.says, r.out)
}

var (
	// Messages of t.Error and similar functions, and messages of the runtime.
	assertion = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: (.*)$|^(?:panic|fatal error): (.*)$|^(WARNING: DATA RACE)$|^ +(FAIL: testdata/script/.*)$`)
	differs   = regexp.MustCompile(`(?:wiretest|clients|history)-[A-Z2-7]+|[0-9][0-9A-Za-zµ.:_+-]*|/tmp/[^ ,;:"')]*|\b[A-Z2-7]{20,}\b|\b[0-9a-f]{16,}\b`)
	setUp     = regexp.MustCompile(`test timed out after|^\d+ schedules, \d+ leases, |bless: store unavailable: CLUSTERDOWN|connect: connection refused|address already in use|^WORK=`)
)

// assertions returns the messages of a test that has failed. It leaves out timeouts of the test,
// and servers that do not start.
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

// asPattern returns the pattern for an assertion in a table.
func asPattern(said string) string { return beginning(differs.ReplaceAllString(said, "*")) }

// beginning returns the first words of a message, up to the first struct or list that it prints.
// These words come from the test itself and identify the assertion.
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

// like reports whether text matches the pattern, in which * stands for any text.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(text)
}
