// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"slices"
	"strings"
)

func (j *judge) live(l int64) int64 {
	for _, r := range j.open {
		if j.Get("owner", r.id) == l && j.Get("trusted", r.id) == 1 && j.Get("released", l) == 0 {
			return r.id
		}
	}
	return 0
}

func (j *judge) letGo(l int64) {
	if l != 0 {
		j.step("a client lets go", "let-go", l)
	}
}

// attempt returns the lease of the attempt that was granted.
func (j *judge) attempt(c Decision) int64 {
	for id, l := range j.leases {
		if of(id, c.ID) && j.Get("granted", l) == 1 {
			return l
		}
	}
	return 0
}

// of says whether an attempt is one of the lease.
func of(attempt, lease string) bool {
	return attempt == lease || strings.HasPrefix(attempt, lease+".")
}

func (j *judge) shares(c Decision) {
	if r := j.live(j.attempt(c)); r != 0 {
		j.step("a lease is shared", "downgrade", r)
	}
}

// granted and extended are called when a client begins to rely on a round.
func (j *judge) granted(c Decision) {
	for a, r := range j.rounds {
		if a.renewal == 0 && of(a.lease, c.ID) && a.token == fmt.Sprint(c.Token) {
			j.confirmed("grant", r, c)
			return
		}
	}
	j.wrongly("lease %s is granted, with token %d that no node was asked for", c.ID, c.Token)
}

func (j *judge) extended(c Decision, n int) {
	l := j.attempt(c)
	if l == 0 || j.Get("released", l) == 1 {
		return // and nobody relies on it
	}
	for _, shared := range []bool{false, true} {
		if r := j.rounds[asking{j.ids[l], fmt.Sprint(c.Token), shared, n}]; r != nil && (j.votes(r) >= j.quorum(r) || shared) {
			j.confirmed("extend", r, c)
			return
		}
	}
	j.wrongly("lease %s is extended, and a quorum has not confirmed that", c.ID)
}

func (j *judge) votes(r *judged) (n int) {
	for _, node := range j.nodes {
		n += int(j.Get("voted", node, r.id))
	}
	return n
}

// quorum is how many nodes have to vote for a round.
func (j *judge) quorum(r *judged) int {
	if r.set == "" {
		return len(j.nodes)/2 + 1
	}
	return quorumOf(r.set)
}

// relies is that a client begins to rely on a round, as nodes.smt has it.
func (j *judge) relies(r *judged, what string) {
	if j.sets == nil {
		return
	}
	q := j.sets.New("Quorum")
	j.sets.Set("of", j.sets.set(r.set), q)
	for id, n := range j.sets.nodes {
		voted := j.sets.Get("voted", n, r.in)
		if voted == 1 && !slices.Contains(j.sets.ids[r.set], id) {
			j.wrongly("%s, by %s too, which is none of %s", what, id, r.set)
		}
		j.sets.Set("member", voted, n, q)
	}
	j.also(what, "confirm", r.in, q)
}

func (j *judge) confirmed(action string, r *judged, c Decision) {
	if r.ttl < c.TTL {
		j.wrongly("lease %s: %s for %d ms, and the nodes were asked for %d", c.ID, action, c.TTL, r.ttl)
	}
	q := j.New("Quorum")
	for _, node := range j.nodes {
		j.Set("member", j.Get("voted", node, r.id), node, q)
	}
	if n := j.votes(r); n < j.quorum(r) {
		j.wrongly("lease %s: %s by %d nodes", c.ID, action, n)
	}
	j.step("lease "+c.ID+" is confirmed", action, r.id, q)
	j.relies(r, "lease "+c.ID+" is confirmed")
	if len(j.rounds) <= 32 && j.wrong == nil {
		if err := j.Holds(); err != nil {
			j.wrongly("%s", strings.ReplaceAll(err.Error(), "\n", ", "))
		}
	}
}
