// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Rule is something that must not happen.
type Rule string

const (
	TwoHolders Rule = "two holders"
	OldToken   Rule = "token not in order"
	CameBack   Rule = "a lease came back"
	Stranded   Rule = "a free name, and nobody gets it"
	NeverAgain Rule = "a client that gets nothing any more"
	LeftBehind Rule = "left behind"
	Hangs      Rule = "a client does not end"
)

// Violation is a rule that was broken.
type Violation struct {
	Rule   Rule
	Name   string // of the lock; may be empty
	At     int64  // when it began
	Until  int64
	Claims []*Claim // the claims that it concerns
	Text   string
}

// Promise has facts about a run that are not in the diaries.
type Promise struct {
	Quiet  int64         // when the last fault had ended
	End    int64         // when the workers were told to end
	Settle time.Duration // how long a store may be closed after the last fault
	Idle   time.Duration // how long a name may be free while somebody waits for it
	Tokens bool          // leases have tokens
}

// Check returns all violations, in the order of time.
func (run *Run) Check(p Promise) []Violation {
	var all []Violation
	for _, claims := range run.byName() {
		all = append(all, overlaps(claims)...)
		if p.Tokens {
			all = append(all, tokens(claims)...)
		}
		all = append(all, stranded(claims, p)...)
	}
	all = append(all, run.neverAgain(p)...)
	for _, c := range run.Claims {
		if c.Back != 0 {
			all = append(all, Violation{Rule: CameBack, Name: c.Name, At: c.Back, Until: c.Back, Claims: []*Claim{c},
				Text: fmt.Sprintf("%v was believed again after it had ended", c)})
		}
	}
	slices.SortStableFunc(all, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return all
}

func (run *Run) byName() map[string][]*Claim {
	names := make(map[string][]*Claim)
	for _, c := range run.Claims {
		names[c.Name] = append(names[c.Name], c)
	}
	return names
}

// overlaps returns a violation for each lease that was believed at the same time as another lease that it excludes.
func overlaps(claims []*Claim) []Violation {
	held := slices.DeleteFunc(slices.Clone(claims), func(c *Claim) bool { return !c.Believed() })
	slices.SortFunc(held, func(a, b *Claim) int { return cmp.Compare(a.From, b.From) })
	var all []Violation
	var now []*Claim // the leases that are believed when c begins
	for _, c := range held {
		now = slices.DeleteFunc(now, func(o *Claim) bool { return o.To <= c.From })
		if with := excluded(c, now); with != nil {
			until := c.To
			for _, o := range with {
				until = min(until, o.To)
			}
			all = append(all, Violation{Rule: TwoHolders, Name: c.Name, At: c.From, Until: until, Claims: append(with, c),
				Text: fmt.Sprintf("%v and %v together for %v", c, with[0], time.Duration(until-c.From).Round(time.Microsecond))})
		}
		now = append(now, c)
	}
	return all
}

// excluded returns the leases of now that must not be held together with c.
func excluded(c *Claim, now []*Claim) []*Claim {
	var with []*Claim
	for _, o := range now {
		if c.Kind != o.Kind || c.Kind == "alone" || c.Kind == "slots" && c.Slots != o.Slots {
			with = append(with, o)
		}
	}
	if c.Kind == "slots" && len(now) >= c.Slots {
		return now[:len(now):len(now)]
	}
	return with
}

// tokens checks three rules. If a lease was granted before another was asked for, it has
// the smaller token. The tokens of exclusive leases grow in the order in which the leases
// were believed. No two leases have the same token.
func tokens(claims []*Claim) []Violation {
	got := slices.DeleteFunc(slices.Clone(claims), func(c *Claim) bool { return c.Granted == 0 || c.Lease == "-" }) // leases of other libraries have no tokens
	var all []Violation
	bad := func(early, late *Claim, why string) {
		all = append(all, Violation{Rule: OldToken, Name: late.Name, At: late.Granted, Until: late.Granted, Claims: []*Claim{early, late},
			Text: fmt.Sprintf("%v: not greater than that of %v, %s", late, early, why)})
	}
	seen := make(map[uint64]*Claim)
	slices.SortFunc(got, func(a, b *Claim) int { return cmp.Compare(a.Granted, b.Granted) })
	for _, c := range got {
		if o := seen[c.Token]; o != nil {
			bad(o, c, "but the same")
		}
		seen[c.Token] = c
	}
	byAsked := slices.SortedFunc(slices.Values(got), func(a, b *Claim) int { return cmp.Compare(a.Asked, b.Asked) })
	var top *Claim // the claim with the largest token so far
	i := 0
	for _, c := range byAsked {
		for ; i < len(got) && got[i].Granted < c.Asked; i++ {
			if top == nil || got[i].Token > top.Token {
				top = got[i]
			}
		}
		if top != nil && c.Token < top.Token {
			bad(top, c, "which was granted before this one was asked for")
		}
	}
	held := slices.DeleteFunc(got, func(c *Claim) bool { return !c.Believed() || c.Kind != "alone" })
	slices.SortFunc(held, func(a, b *Claim) int { return cmp.Compare(a.From, b.From) })
	for i := 1; i < len(held); i++ {
		if a, b := held[i-1], held[i]; b.Token < a.Token && a.To < b.From && a.Granted >= b.Asked {
			bad(a, b, "which was held before")
		}
	}
	return all
}
