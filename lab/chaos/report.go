// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/lab/chaos/check"
)

// table prints a row for each run, and then for each run its faults and violations.
func table(w io.Writer, rows []*run) {
	fmt.Fprintln(w, "| store | for | leases | lost | waits given up | faults | overlaps | tokens not in order | longest wait | stuck | left behind |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		granted, lost, failed := r.tally()
		count := r.broken()
		fmt.Fprintf(w, "| %s | %v | %d | %d | %d | %d | %d | %d | %v | %d | %d |\n", r.store, r.length, granted, lost, failed, len(r.nemesis.past),
			count[check.TwoHolders], count[check.OldToken]+count[check.CameBack], r.result.LongestWait().Round(100*time.Millisecond),
			count[check.Stranded]+count[check.NeverAgain]+count[check.Hangs], r.left)
	}
	for _, r := range rows {
		fmt.Fprintf(w, "\n%s, seed %d: %s\n", r.store, r.seed, r.kinds())
		for text, n := range r.result.Refused {
			fmt.Fprintf(w, "  %d times no client: %s\n", n, text)
		}
		r.tell(w)
	}
}

func (r *run) tally() (granted, lost, failed int) {
	for _, c := range r.result.Claims {
		switch {
		case c.Granted != 0:
			granted++
			if c.Lost != "" {
				lost++
			}
		case c.Waits && c.Failed != "" && !guest(c):
			failed++
		}
	}
	return granted, lost, failed
}

// guest reports whether a guest made the claim. A store may refuse guests.
func guest(c *check.Claim) bool { return strings.HasPrefix(c.Worker, "g") }

func (r *run) broken() map[check.Rule]int {
	count := make(map[check.Rule]int)
	for _, v := range r.found {
		count[v.Rule]++
	}
	return count
}

// kinds returns the kinds of faults that happened, and how often each happened.
func (r *run) kinds() string {
	count := make(map[string]int)
	for _, h := range r.nemesis.past {
		count[h.kind]++
	}
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		all = append(all, fmt.Sprintf("%d × %s", count[kind], kind))
	}
	return strings.Join(all, ", ")
}

// tell prints the first violations of each rule, with their claims and the faults before them.
func (r *run) tell(w io.Writer) {
	const shown = 3
	told := make(map[check.Rule]int)
	for _, v := range r.found {
		if told[v.Rule]++; told[v.Rule] > shown {
			continue
		}
		fmt.Fprintf(w, "  %s: %s\n", v.Rule, v.Text)
		for _, h := range r.nemesis.past {
			if h.from < v.At && v.At-max(h.to, h.from) < int64(r.maxTTL) {
				fmt.Fprintf(w, "    %v before: %s%s\n", time.Duration(v.At-h.from).Round(time.Millisecond), h.kind, h.notes)
			}
		}
		for _, c := range v.Claims {
			fmt.Fprintf(w, "    %v: asked at %d, believed from %d to %d %s\n", c, c.Asked, c.From, c.To, c.Lost+c.Failed)
		}
	}
	for rule, n := range told {
		if n > shown {
			fmt.Fprintf(w, "  %s: %d more\n", rule, n-shown)
		}
	}
}
