// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"fmt"
	"math"
	"strings"
)

// carriedOut is called for each request of a step: the i-th of those that came together. What a node
// has is compared before the first and after the last request about a name.
func (j *judge) carriedOut(s traced, i int, first, last bool) {
	if first {
		j.expired(s.node, s.Before[i])
		j.compare(s.node, s.Before[i], "before", s)
	}
	if s.Script == "propose" {
		j.voted(s, i)
	} else {
		j.ended(s, i)
	}
	if last {
		j.compare(s.node, s.After[i], "after", s)
	}
}

// expired lets locks expire that are not there any more.
func (j *judge) expired(node int, b tracedName) {
	there := map[int64]bool{}
	for _, l := range b.Locks {
		there[j.leases[readLock(l.Value, 0, false).Lease]] = true
	}
	for l := range j.has[node] {
		if !there[l] {
			j.step(fmt.Sprintf("the lock of lease %s expires at node %d", j.ids[l], node), "expire", j.nodes[node], l)
			delete(j.has[node], l)
		}
	}
}

func (j *judge) voted(s traced, i int) {
	n, count := j.nodes[s.node], len(s.Before)
	mode, _, _ := strings.Cut(s.Args[0], " ")
	shared, from, ttl := s.Args[1] == "1", s.Args[2], int64(number(s.Args[3]))
	lease, token := s.Args[7+i], s.Args[7+count+i]
	rounds := j.sent(lease, token, mode, shared, ttl)
	if s.Answers[i] != 1 {
		return
	}
	l, what := j.lease(lease), fmt.Sprintf("node %d votes for lease %s (%s)", s.node, lease, mode)
	if heir, ok := j.leases[from]; ok && j.Get("has", n, heir) == 1 && heir != l {
		j.opens(s.node, l)
		j.step(what+" after "+from, "hand-over", n, heir, rounds[0].id)
		delete(j.has[s.node], heir)
	} else {
		j.opens(s.node, l)
		for _, r := range rounds {
			j.step(what, map[bool]string{true: "take", false: "heal"}[mode == "take"], n, r.id)
		}
	}
	j.has[s.node][l] = true
	for _, lock := range s.After[i].Locks {
		if readLock(lock.Value, 0, false).Lease == lease && lock.Left < ttl {
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

func (j *judge) ended(s traced, i int) {
	n, count, bar := j.nodes[s.node], len(s.Before), int64(0)
	lease, next := s.Args[4+i], s.Args[4+count+i]
	if s.Args[0] != "0" {
		bar = 1
	}
	if s.Answers[i] < 0 {
		return
	}
	l, what := j.lease(lease), fmt.Sprintf("node %d ends lease %s", s.node, lease)
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
	delete(j.has[s.node], l)
}

// handed is a hand-over to a waiter, whose round was sent when it asked to be in the queue: what token it would have was not
// known then, and nothing depended on that.
func (j *judge) handed(s traced, i int, from int64, least string) {
	if len(s.After[i].Locks) != 1 {
		j.wrongly("node %d hands over, and there are %d locks", s.node, len(s.After[i].Locks))
		return
	}
	to := s.After[i].Locks[0]
	lock := readLock(to.Value, 0, false)
	token := fmt.Sprint(lock.Token)
	if lock.Token < number(least) {
		j.wrongly("node %d hands over with a token that is older than %s", s.node, least)
	}
	r := j.round(asking{lease: lock.Lease, token: token}, false, to.Left)
	r.ttl = math.MaxInt64 // the waiter has asked for it
	j.Set("sent", 1, r.id)
	j.pass()
	j.opens(s.node, j.lease(lock.Lease))
	j.step(fmt.Sprintf("node %d hands over to lease %s", s.node, lock.Lease), "hand-over", j.nodes[s.node], from, r.id)
	delete(j.has[s.node], from)
	j.has[s.node][j.lease(lock.Lease)] = true
}

// compare compares what a node has with what it has by the formulas.
func (j *judge) compare(node int, is tracedName, when string, s traced) {
	n, what := j.nodes[node], fmt.Sprintf("node %d %s %s %q, answered %v", node, when, s.Script, s.Args, s.Answers)
	for _, lock := range is.Locks {
		l := j.lease(readLock(lock.Value, 0, false).Lease)
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
