// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/proof"
)

var formulas = sync.OnceValues(func() (*proof.Model, error) { return proof.Read("../../spec/proof/redlock.smt") })

// judge holds what has happened to one name against the formulas, in the order of the time.
type judge struct {
	*proof.Run
	key    string
	now    int64
	nodes  []int64
	leases map[string]int64
	ids    []string // of leases, by their number
	has    []map[int64]bool
	rounds map[asking]*judged
	open   []*judged // those that are not over
	grants []clientStep
	renews []clientStep
	wrong  error
}

// asking is what proposals of one round have in common. Of renewals that is which of the client's it is.
type asking struct {
	lease, token string
	shared       bool
	renewal      int // from 1; 0 if it asks for a new lease, -1 of a renewal that nobody has begun
}

type judged struct {
	asking
	id, over int64
	ttl      int64 // in ms, as nodes were asked for it
}

// judgeAll reports the first step of each name that the formulas do not have.
func judgeAll(t testing.TB, tr *tracer) {
	m, err := formulas()
	if err != nil {
		t.Fatal(err)
	}
	type step struct {
		at   int64
		rank int // of those at one time
		do   func()
	}
	judges, steps := map[string]*judge{}, map[*judge][]step{}
	at := func(key string) *judge {
		j := judges[key]
		if j == nil {
			j = &judge{key: key, leases: map[string]int64{}, ids: []string{""}, rounds: map[asking]*judged{}}
			if j.Run, err = m.Run(); err != nil {
				t.Fatal(err)
			}
			for node := range tr.fleet {
				j.nodes, j.has = append(j.nodes, j.New("Node")), append(j.has, map[int64]bool{})
				for _, at := range tr.boots[node] {
					steps[j] = append(steps[j], step{at, 0, func() { j.restarted(node) }})
				}
			}
			judges[key] = j
		}
		return j
	}
	for _, s := range tr.steps {
		if s.Boot == "" {
			t.Fatalf("a server without a run: %+v", s)
		}
		for i, b := range s.Before {
			j := at(b.Key)
			last := !slices.ContainsFunc(s.Before[i+1:], func(o tracedName) bool { return o.Key == b.Key })
			first := !slices.ContainsFunc(s.Before[:i], func(o tracedName) bool { return o.Key == b.Key })
			steps[j] = append(steps[j], step{s.At, 1, func() { j.carriedOut(s, i, first, last) }})
		}
	}
	for _, c := range tr.client {
		j := at(c.key)
		switch c.what {
		case "grant":
			j.grants = append(j.grants, c)
			steps[j] = append(steps[j], step{c.at, 2, func() { j.granted(c) }})
		case "extend", "fail":
			j.renews = append(j.renews, c)
			if n := len(j.renews); c.what == "extend" {
				steps[j] = append(steps[j], step{c.at, 2, func() { j.extended(c, n) }})
			}
		case "share":
			steps[j] = append(steps[j], step{c.at, 0, func() { j.shares(c) }})
		case "let go":
			steps[j] = append(steps[j], step{c.at, 0, func() { j.letGo(j.attempt(c)) }})
		}
	}
	n := 0
	for j, all := range steps {
		slices.SortStableFunc(all, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), a.rank-b.rank) })
		for _, s := range all {
			if j.now = s.at; j.wrong == nil {
				j.pass()
				s.do()
				n++
			}
		}
		if j.wrong != nil {
			t.Errorf("no step of the formulas: %v", j.wrong)
		}
	}
	t.Logf("%d steps are those of the formulas", n)
}

func (j *judge) wrongly(format string, args ...any) {
	if j.wrong == nil {
		j.wrong = fmt.Errorf(format+" (of %s)", append(args, j.key)...)
	}
}

func (j *judge) step(what, action string, args ...int64) {
	if j.wrong != nil {
		return
	}
	if err := j.Step(action, args...); err != nil {
		j.wrongly("%s: %s", what, strings.ReplaceAll(err.Error(), "\n", ", "))
	}
}

func (j *judge) lease(id string) int64 {
	l, ok := j.leases[id]
	if !ok {
		l = j.New("Lease")
		j.leases[id] = l
		j.ids = append(j.ids, id)
	}
	return l
}

// pass ends the windows that are over.
func (j *judge) pass() {
	j.open = slices.DeleteFunc(j.open, func(r *judged) bool {
		if r.over <= j.now {
			j.step("time passes", "pass-time", r.id)
		}
		return r.over <= j.now
	})
}

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
func (j *judge) attempt(c clientStep) int64 {
	for id, l := range j.leases {
		if of(id, c.id) && j.Get("granted", l) == 1 {
			return l
		}
	}
	return 0
}

// of says whether an attempt is one of the lease.
func of(attempt, lease string) bool {
	return attempt == lease || strings.HasPrefix(attempt, lease+".")
}

func (j *judge) shares(c clientStep) {
	if r := j.live(j.attempt(c)); r != 0 {
		j.step("a lease is shared", "downgrade", r)
	}
}

func (j *judge) restarted(node int) {
	n := j.nodes[node]
	for l := range int64(len(j.ids)) {
		j.Set("kept", 0, l)
	}
	for _, r := range j.rounds {
		j.Set("loses", 1, r.id)
	}
	clear(j.has[node])
	j.step(fmt.Sprintf("node %d starts again", node), "restart", n, 0, 0, 0, 0, 0, 0, 0)
}

// round returns the round that proposals are of. The first of them to come is when it was sent: no
// later than that, and nothing depends on what was before.
func (j *judge) round(a asking, extends bool, ttl int64) *judged {
	r := j.rounds[a]
	if r != nil {
		return r
	}
	ms := time.Duration(ttl) * time.Millisecond
	r = &judged{a, j.New("Round"), j.now + (ms - driver.Drift(ms)).Microseconds(), ttl}
	if a.renewal > 0 {
		r.over = j.renews[a.renewal-1].over
	}
	for _, g := range j.grants {
		if a.renewal == 0 && of(a.lease, g.id) && fmt.Sprint(g.token) == a.token {
			r.over = g.over
		}
	}
	j.rounds[a], j.open = r, append(j.open, r)
	l := j.lease(a.lease)
	if a.shared && !extends {
		j.Set("reads", 1, l)
	}
	j.Set("owner", l, r.id)
	j.Set("token", int64(number(a.token)), r.id)
	for what, is := range map[string]bool{"extends": extends, "shares": a.shared} {
		if is {
			j.Set(what, 1, r.id)
		}
	}
	return r
}

// sent returns the rounds that a proposal is of. A renewal is of all that the client had begun and
// that had not returned: a yes to one is a yes to each of them, as none of them begins later.
func (j *judge) sent(lease, token, mode string, shared bool, ttl int64) (all []*judged) {
	extends := mode != "take"
	var which []int
	last := -1
	for i, c := range j.renews {
		if of(lease, c.id) && c.begun <= j.now && c.ttl == ttl {
			last = i + 1
			if j.now <= c.at {
				which = append(which, i+1)
			}
		}
	}
	switch {
	case !extends:
		which = []int{0}
	case which == nil:
		which = []int{last}
	}
	for _, i := range which {
		a := asking{lease, token, shared, i}
		known := j.rounds[a] != nil
		r := j.round(a, extends, ttl)
		if !known {
			j.step(fmt.Sprintf("lease %s asks", lease), "send", r.id)
			j.pass()
		}
		all = append(all, r)
	}
	return all
}

// granted and extended are called when a client begins to rely on a round.
func (j *judge) granted(c clientStep) {
	for a, r := range j.rounds {
		if a.renewal == 0 && of(a.lease, c.id) && a.token == fmt.Sprint(c.token) {
			j.confirmed("grant", r, c)
			return
		}
	}
	j.wrongly("lease %s is granted, with token %d that no node was asked for", c.id, c.token)
}

func (j *judge) extended(c clientStep, n int) {
	l := j.attempt(c)
	if l == 0 || j.Get("released", l) == 1 {
		return // and nobody relies on it
	}
	for _, shared := range []bool{false, true} {
		if r := j.rounds[asking{j.ids[l], fmt.Sprint(c.token), shared, n}]; r != nil && (j.votes(r) > len(j.nodes)/2 || shared) {
			j.confirmed("extend", r, c)
			return
		}
	}
	j.wrongly("lease %s is extended, and a quorum has not confirmed that", c.id)
}

func (j *judge) votes(r *judged) (n int) {
	for _, node := range j.nodes {
		n += int(j.Get("voted", node, r.id))
	}
	return n
}

func (j *judge) confirmed(action string, r *judged, c clientStep) {
	if r.ttl < c.ttl {
		j.wrongly("lease %s: %s for %d ms, and the nodes were asked for %d", c.id, action, c.ttl, r.ttl)
	}
	q := j.New("Quorum")
	for _, node := range j.nodes {
		j.Set("member", j.Get("voted", node, r.id), node, q)
	}
	if n := j.votes(r); n <= len(j.nodes)/2 {
		j.wrongly("lease %s: %s by %d nodes", c.id, action, n)
	}
	j.step("lease "+c.id+" is confirmed", action, r.id, q)
	if len(j.rounds) <= 32 && j.wrong == nil {
		if err := j.Holds(); err != nil {
			j.wrongly("%s", strings.ReplaceAll(err.Error(), "\n", ", "))
		}
	}
}
