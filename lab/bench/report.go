// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// report is the result of all workloads.
type report struct {
	results
	order []section
	facts []string // facts about the machine and the software
}

// section is a workload in a report.
type section struct{ id, title string }

// fileName returns the name of a workload as it appears in names of files.
func fileName(id string) string { return strings.ToLower(strings.ReplaceAll(id, "/", "-")) }

// text returns the report for a terminal.
func (r *report) text() string {
	var b strings.Builder
	for _, s := range r.order {
		fmt.Fprintf(&b, "\n%s: %s\n\n%s", s.id, s.title, r.tableOf(s.id).text())
	}
	b.WriteString("\n")
	for _, f := range r.facts {
		fmt.Fprintf(&b, "%s\n", f)
	}
	return b.String()
}
