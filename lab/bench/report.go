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

const legend = `Each cell was run in turn with the others of its table, again and again. "a second", p50, fairness and costs are medians of the rounds, p99
and the longest wait are of all rounds together. Ratios are medians of the ratios within each round. Costs are for one acquisition with its
release: processor time of all clients and all servers; requests to Redis, and commands that it carried out, with those within scripts.
Times of own locks are of acquire and release together; of shared locks, of acquire; of hand-offs, from the call of release to the return
of another process's acquire. A waiter that waited in vain until the end of a cell counts for the longest wait.`

// What a run writes stands between these two lines; what is around them is kept.
const (
	beginMark = "<!-- what follows is written by: make bench -->"
	endMark   = "<!-- end of what make bench writes -->"
)

// into returns the document old with the figures of this run.
func (r *report) into(old, pictures string) string {
	before, rest, ok := strings.Cut(old, beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !ok || !ended {
		before, after = "# Measured side by side\n\n", "\n"
	}
	return before + beginMark + "\n\n" + r.markdown(pictures) + "\n" + endMark + after
}

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

// markdown is for docs/benchmarks.md. The pictures are in the folder pictures, unless
// that is empty.
func (r *report) markdown(pictures string) string {
	var b strings.Builder
	b.WriteString(legend + "\n\n")
	for _, f := range r.facts {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	v := r.verdicts()
	fmt.Fprintf(&b, "\n### Aims\n\n%s.\n\n%s", summary(v), v.markdown())
	for _, s := range r.order {
		fmt.Fprintf(&b, "\n### %s: %s\n\n", s.id, s.title)
		if _, ok := r.chart(s); ok && pictures != "" {
			fmt.Fprintf(&b, "![%s](%s/%s.svg)\n\n", s.title, pictures, fileName(s.id))
		}
		b.WriteString(r.tableOf(s.id).markdown())
	}
	return b.String()
}
