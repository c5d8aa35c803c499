// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// report is what a run has found.
type report struct {
	results
	order []section
	facts []string // of the machine and the software
}

// section is one workload of a report.
type section struct{ id, title string }

// fileName is a workload's name in names of files.
func fileName(id string) string { return strings.ToLower(strings.ReplaceAll(id, "/", "-")) }

// text is for a terminal.
func (r *report) text() string {
	var b strings.Builder
	for _, s := range r.order {
		fmt.Fprintf(&b, "\n%s: %s\n\n%s", s.id, s.title, r.tableOf(s.id).text())
	}
	v := r.verdicts()
	fmt.Fprintf(&b, "\n%s\n%s\n", v.text(), summary(v))
	for _, f := range r.facts {
		fmt.Fprintf(&b, "%s\n", f)
	}
	return b.String()
}
