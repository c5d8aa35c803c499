// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// LongestWait returns the longest time that a waiting call took until it returned, with a lease or
// without.
func (run *Run) LongestWait() time.Duration {
	var longest int64
	for _, c := range run.Claims {
		if end := cmp.Or(c.Granted, c.Done); c.Waits && end != 0 && c.Worker != "first" {
			longest = max(longest, end-c.Asked)
		}
	}
	return time.Duration(longest)
}

// stranded returns a violation for each time in which a name was free for too long while somebody
// waited for it. It looks at the time after the last fault and the quarantine that may follow.
func stranded(claims []*Claim, p Promise) []Violation {
	type instant struct {
		at            int64
		held, waiting int
		c             *Claim
	}
	var line []instant
	for _, c := range claims {
		// A lease counts as held until its release has returned, or until the last line about it.
		if c.Granted != 0 {
			end := c.Done
			if end == 0 {
				end = max(c.Granted, c.To, c.Ended)
			}
			line = append(line, instant{at: c.Granted, held: 1, c: c}, instant{at: end, held: -1, c: c})
		}
		if c.Waits {
			end := cmp.Or(c.Granted, c.Done, p.End)
			line = append(line, instant{at: c.Asked, waiting: 1, c: c}, instant{at: end, waiting: -1, c: c})
		}
	}
	slices.SortStableFunc(line, func(a, b instant) int { return cmp.Compare(a.at, b.at) })
	line = append(line, instant{at: p.End})
	var all []Violation
	from := p.Quiet + int64(p.Settle)
	held, waiting, idle := 0, 0, from
	var last *Claim
	for _, i := range line {
		if held == 0 && waiting > 0 && min(i.at, p.End)-max(idle, from) > int64(p.Idle) {
			v := Violation{Rule: Stranded, At: max(idle, from), Until: min(i.at, p.End), Text: fmt.Sprintf("nobody had the name for %v, and %d waited",
				time.Duration(min(i.at, p.End)-max(idle, from)).Round(time.Millisecond), waiting)}
			for _, c := range claims {
				v.Name = c.Name
				if c.Waits && c.Asked < v.Until && cmp.Or(c.Granted, c.Done, p.End) > v.At {
					v.Claims = append(v.Claims, c)
				}
			}
			if last != nil {
				v.Claims = append(v.Claims, last)
			}
			all = append(all, v)
		}
		held, waiting = held+i.held, waiting+i.waiting
		if i.held != 0 {
			last = i.c
		}
		if i.held != 0 || i.waiting > 0 && waiting == 1 {
			idle = i.at
		}
	}
	return all
}

// neverAgain returns a violation for each client that asked for leases after the last fault, got
// none, and lived to the end.
func (run *Run) neverAgain(p Promise) []Violation {
	type tally struct {
		asked, granted int
		last           *Claim
	}
	from := p.Quiet + int64(p.Settle)
	workers := make(map[string]*tally)
	for _, c := range run.Claims {
		w := workers[c.Worker]
		if w == nil {
			w = new(tally)
			workers[c.Worker] = w
		}
		if cmp.Or(c.Granted, c.Done, p.End) < from || c.Asked > p.End {
			continue
		}
		w.last = c
		if w.asked++; c.Granted != 0 {
			w.granted++
		}
	}
	var all []Violation
	for name, w := range workers {
		if w.asked > 0 && w.granted == 0 && run.Last[name] >= from && p.End-from > int64(p.Idle) {
			all = append(all, Violation{Rule: NeverAgain, Name: w.last.Name, At: from, Until: p.End, Claims: []*Claim{w.last},
				Text: fmt.Sprintf("%s asked %d times after the last fault and got nothing; the last answer: %s", name, w.asked, cmp.Or(w.last.Failed, "none"))})
		}
	}
	return all
}
