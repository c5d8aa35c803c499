// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"
)

// Shrink leaves out faults and steps of p as long as the plan still breaks rule. It returns
// the smallest plan that it finds.
func Shrink(in Bubble, p Plan, rule Rule) Plan {
	h := Run(in, p)
	if !h.breaks(rule) {
		return p
	}
	for smaller := h; smaller != nil; {
		h, smaller = smaller, nil
		for _, without := range cuts(h) {
			if o := Run(in, without); o.breaks(rule) {
				smaller = o
				break
			}
		}
	}
	return h.Plan
}

func (h *History) breaks(rule Rule) bool {
	return slices.ContainsFunc(h.Violations, func(v Violation) bool { return v.Rule == rule })
}

// cuts returns plans that leave out parts of h's plan. Plans that leave out most come
// first.
func cuts(h *History) (all []Plan) {
	p := h.Plan
	script := func(client int, s Script) {
		q := p
		q.Clients = slices.Clone(p.Clients)
		q.Clients[client] = s
		all = append(all, q)
	}
	starts := make([][]time.Duration, len(p.Clients))
	for _, e := range h.Events {
		if e.Kind == Asks {
			starts[e.Client-1] = append(starts[e.Client-1], e.At)
		}
	}
	for c, s := range p.Clients {
		for _, n := range []int{0, len(s) / 2, len(s) - 1} {
			if n >= 0 && n < len(s) {
				script(c, s[:n:n])
			}
		}
		for _, n := range []int{len(s) / 2, 1} { // the steps after n begin when they began in h
			if n > 0 && n < len(s) && n < len(starts[c]) {
				rest := slices.Clone(s[n:])
				rest[0].Wait = starts[c][n]
				script(c, rest)
			}
		}
	}
	if p.Ahead != nil {
		q := p
		q.Ahead = nil
		all = append(all, q)
	}
	for i := range p.Faults {
		q := p
		q.Faults = slices.Delete(slices.Clone(p.Faults), i, i+1)
		all = append(all, q)
	}
	return all
}
