// SPDX-License-Identifier: Apache-2.0

package sim

import "slices"

// Shrink returns the smallest plan that it finds in which rule is still broken, by
// leaving out faults and steps of p one at a time.
func Shrink(p Plan, rule Rule) Plan {
	breaks := func(p Plan) bool {
		return slices.ContainsFunc(Run(p).Violations, func(v Violation) bool { return v.Rule == rule })
	}
	if !breaks(p) {
		return p
	}
	for smaller := true; smaller; {
		smaller = false
		for _, without := range cuts(p) {
			if breaks(without) {
				p, smaller = without, true
				break
			}
		}
	}
	return p
}

// cuts returns the plans in which one thing of p is missing: the last steps of a
// client first, as they take the most with them.
func cuts(p Plan) (all []Plan) {
	for c, s := range p.Clients {
		for _, n := range []int{0, len(s) / 2, len(s) - 1} {
			if n >= 0 && n < len(s) {
				q := p
				q.Clients = slices.Clone(p.Clients)
				q.Clients[c] = s[:n:n]
				all = append(all, q)
			}
		}
	}
	for i := range p.Faults {
		q := p
		q.Faults = slices.Delete(slices.Clone(p.Faults), i, i+1)
		all = append(all, q)
	}
	for c, s := range p.Clients {
		for i := range len(s) - 1 {
			// What follows stays where it was.
			q := p
			q.Clients = slices.Clone(p.Clients)
			q.Clients[c] = slices.Delete(slices.Clone(s), i, i+1)
			q.Clients[c][i].Wait += s[i].Wait + s[i].Work
			all = append(all, q)
		}
	}
	return all
}
