// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// carriedOut is called for each request of a step: the i-th of those that came together. What a node
// has is compared before the first and after the last request about a name.
func (j *judge) carriedOut(s Call, i int, first, last bool) {
	if first {
		j.expired(s.Node, s.Before[i])
		j.compare(s.Node, s.Before[i], "before", s)
	}
	if s.Script == "propose" {
		j.proposed(s, i)
	} else {
		j.ended(s, i)
	}
	if last {
		j.compare(s.Node, s.After[i], "after", s)
	}
}

// expired lets locks expire that are not there any more.
func (j *judge) expired(node int, b Name) {
	there := map[int64]bool{}
	for _, l := range b.Locks {
		there[j.leases[readLock(l.Value).lease]] = true
	}
	for l := range j.has[node] {
		if !there[l] {
			j.step(fmt.Sprintf("the lock of lease %s expires at node %d", j.ids[l], node), "expire", j.nodes[node], l)
			delete(j.has[node], l)
		}
	}
}

// proposed is called for a proposal. Of a round for which no node ever votes nothing follows, and nodes need not wait
// for its end: its TTL may be longer than what they allow.
func (j *judge) proposed(s Call, i int) {
	n, count := j.nodes[s.Node], len(s.Before)
	mode, _, _ := strings.Cut(s.Args[0], " ")
	shared, from, ttl := s.Args[1] == "1", s.Args[2], int64(number(s.Args[3]))
	lease, token := s.Args[7+i], s.Args[7+count+i]
	if !j.voted[[2]string{lease, token}] {
		return
	}
	rounds := j.sent(lease, token, mode, shared, ttl)
	if s.Answers[i] != 1 {
		return
	}
	l, what := j.lease(lease), fmt.Sprintf("node %d votes for lease %s (%s)", s.Node, lease, mode)
	if heir, ok := j.leases[from]; ok && j.Get("has", n, heir) == 1 && heir != l {
		j.opens(s.Node, l)
		j.step(what+" after "+from, "hand-over", n, heir, rounds[0].id)
		j.votesFor(what, s.Node, rounds[0])
		delete(j.has[s.Node], heir)
	} else {
		j.opens(s.Node, l)
		for _, r := range rounds {
			j.step(what, map[bool]string{true: "take", false: "heal"}[mode == "take"], n, r.id)
			j.votesFor(what, s.Node, r)
		}
	}
	j.has[s.Node][l] = true
	for _, lock := range s.After[i].Locks {
		if readLock(lock.Value).lease == lease && lock.Left < ttl {
			j.wrongly("%s, for %d ms instead of %d", what, lock.Left, ttl)
		}
	}
}

// opens ends a quarantine, if a node takes a lock for a lease.
func (j *judge) opens(node int, l int64) {
	if n := j.nodes[node]; j.Get("closed", n) == 1 && j.Get("has", n, l) == 0 {
		j.step(fmt.Sprintf("node %d opens", node), "reopen", n)
	}
}

func (j *judge) ended(s Call, i int) {
	n, count, bar := j.nodes[s.Node], len(s.Before), int64(0)
	lease, next := s.Args[4+i], s.Args[4+count+i]
	if s.Args[0] != "0" {
		bar = 1
	}
	if s.Answers[i] < 0 {
		return
	}
	l, what := j.lease(lease), fmt.Sprintf("node %d ends lease %s", s.Node, lease)
	if j.live(l) != 0 && s.Args[1] == "" {
		j.wrongly("%s while it is trusted", what)
	}
	j.letGo(l)
	if s.Answers[i] == 2 {
		j.handed(s, i, l, next)
		return
	}
	if had := j.Get("has", n, l); had != s.Answers[i] {
		j.wrongly("%s, and says that it had a lock: %d", what, s.Answers[i])
	}
	j.step(what, "end", n, l, bar)
	delete(j.has[s.Node], l)
}

// handed is a hand-over to a waiter, whose round was sent when it asked to be in the queue: what token it would have was not
// known then, and nothing depended on that.
func (j *judge) handed(s Call, i int, from int64, least string) {
	if len(s.After[i].Locks) != 1 {
		j.wrongly("node %d hands over, and there are %d locks", s.Node, len(s.After[i].Locks))
		return
	}
	to := s.After[i].Locks[0]
	lock := readLock(to.Value)
	token := fmt.Sprint(lock.token)
	if lock.token < number(least) {
		j.wrongly("node %d hands over with a token that is older than %s", s.Node, least)
	}
	r := j.round(asking{lease: lock.lease, token: token}, false, to.Left)
	r.ttl = math.MaxInt64 // the waiter has asked for it
	j.Set("sent", 1, r.id)
	j.pass()
	j.opens(s.Node, j.lease(lock.lease))
	what := fmt.Sprintf("node %d hands over to lease %s", s.Node, lock.lease)
	j.step(what, "hand-over", j.nodes[s.Node], from, r.id)
	j.votesFor(what, s.Node, r)
	delete(j.has[s.Node], from)
	j.has[s.Node][j.lease(lock.lease)] = true
}

// compare compares what a node has with what it has by the formulas.
func (j *judge) compare(node int, is Name, when string, s Call) {
	n, what := j.nodes[node], fmt.Sprintf("node %d %s %s %q, answered %v", node, when, s.Script, s.Args, s.Answers)
	for _, lock := range is.Locks {
		l := j.lease(readLock(lock.Value).lease)
		if j.Get("has", n, l) == 0 {
			j.wrongly("%s: it has a lock of lease %s", what, j.ids[l])
		} else if lock.Shared == (j.Get("alone", n) == 1) {
			j.wrongly("%s: the lock of lease %s is shared: %v", what, j.ids[l], lock.Shared)
		}
	}
	if len(is.Locks) != len(j.has[node]) {
		j.wrongly("%s: it has %d locks, by the formulas %d", what, len(is.Locks), len(j.has[node]))
	}
	lease, floors := readStanding(is.Floor)
	for f, has := range floors {
		if want := j.Get(f, n); want != int64(has) {
			j.wrongly("%s: %s is %d, by the formulas %d", what, f, has, want)
		}
	}
	if by := j.Get("by", n); lease != "" && j.ids[by] != lease {
		j.wrongly("%s: the token is that of lease %s, by the formulas of %s", what, lease, j.ids[by])
	}
}

// readStanding reads the record of a floor as the scripts' function standing does.
func readStanding(record string) (lease string, floors map[string]uint64) {
	f := strings.Split(record, " ")
	if len(f) != 5 {
		return "", map[string]uint64{"floor": 0, "stands": 0, "writer": 0}
	}
	token, before, earlier := number(f[0]), number(f[3]), number(f[4])
	floors = map[string]uint64{"floor": token, "stands": token, "before": before, "writer": earlier, "earlier": earlier}
	switch f[2] {
	case "x":
		floors["stands"] = before
	case "w":
		floors["writer"] = token
	}
	return f[1], floors
}

// value is that of a lock, as far as it matters.
type value struct {
	lease string
	token uint64
}

func readLock(text string) value {
	f := strings.SplitN(text, " ", 5)
	if len(f) < 5 {
		return value{lease: text}
	}
	return value{f[0], number(f[2])}
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}
