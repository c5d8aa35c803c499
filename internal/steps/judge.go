// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/proof"
)

// forEver is when what was not heard of has ended.
const forEver = math.MaxInt64

// judge holds what has happened to one name against the formulas, in the order of the time.
type judge struct {
	*proof.Run
	key    string
	steps  []step
	now    int64
	nodes  []int64
	leases map[string]int64
	ids    []string // of leases, by their number
	has    []map[int64]bool
	rounds map[asking]*judged
	voted  map[[2]string]bool // leases, with their tokens, for which a node has voted at any time
	sets   *sets              // nil if nodes are not changed
	// clients are the sets of nodes of the clients that have asked for leases.
	clients map[string]string
	open    []*judged // those that are not over
	grants  []Decision
	renews  []Decision
	wrong   error
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
	in       int64  // sets: the round there
	set      string // of nodes
	ttl      int64  // in ms, as nodes were asked for it
}

type step struct {
	at   int64
	rank int // of those at one time
	do   func()
}

// at returns the judge of a name.
func (tr *Trace) at(judges map[string]*judge, m, nodes *proof.Model, key string) (*judge, error) {
	if j := judges[key]; j != nil {
		return j, nil
	}
	run, err := m.Run()
	if err != nil {
		return nil, err
	}
	j := &judge{Run: run, key: key, leases: map[string]int64{}, ids: []string{""}, rounds: map[asking]*judged{}, voted: map[[2]string]bool{}, clients: map[string]string{}}
	for range tr.Nodes {
		j.nodes, j.has = append(j.nodes, j.New("Node")), append(j.has, map[int64]bool{})
	}
	for _, l := range tr.Losses {
		j.does(l.At, 0, func() { j.restarted(l.Node) })
	}
	judges[key] = j
	if nodes == nil {
		return j, nil
	}
	j.sets, err = newSets(nodes)
	for _, r := range tr.Records {
		j.does(r.At, 0, func() {
			if err := j.sets.recorded(r); err != nil {
				j.wrongly("%s", strings.ReplaceAll(err.Error(), "\n", ", "))
			}
		})
	}
	return j, err
}

func (j *judge) does(at int64, rank int, do func()) { j.steps = append(j.steps, step{at, rank, do}) }

func (j *judge) decides(d Decision) {
	switch d.What {
	case Grant:
		j.grants = append(j.grants, d)
		j.does(d.At, 2, func() { j.granted(d) })
	case Extend, Fail:
		j.renews = append(j.renews, d)
		if n := len(j.renews); d.What == Extend {
			j.does(d.At, 2, func() { j.extended(d, n) })
		}
	case Share:
		j.does(d.At, 0, func() { j.shares(d) })
	case LetGo:
		j.does(d.At, 0, func() { j.letGo(j.attempt(d)) })
	}
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

// also makes a step of nodes.smt.
func (j *judge) also(what, action string, args ...int64) {
	if j.sets == nil || j.wrong != nil {
		return
	}
	if err := j.sets.Step(action, args...); err != nil {
		j.wrongly("%s: %s, of nodes.smt", what, strings.ReplaceAll(err.Error(), "\n", ", "))
	}
}

// votes is that a node votes for a round.
func (j *judge) votesFor(what string, node int, r *judged) {
	if j.sets != nil {
		j.also(what, "vote", j.sets.node(j.sets.at[node]), r.in)
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
			j.also("time passes", "pass-time", r.in)
		}
		return r.over <= j.now
	})
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
	r = &judged{asking: a, id: j.New("Round"), over: j.now + (ms - driver.Drift(ms)).Microseconds(), ttl: ttl, set: j.clients[a.lease]}
	if j.sets != nil {
		r.in = j.sets.New("Round")
		j.sets.Set("with", j.sets.set(r.set), r.in)
		j.also("lease "+a.lease+" asks", "send", r.in)
	}
	if a.renewal > 0 {
		r.over = j.renews[a.renewal-1].Over
	}
	for _, g := range j.grants {
		if a.renewal == 0 && of(a.lease, g.ID) && fmt.Sprint(g.Token) == a.token {
			r.over = g.Over
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
		if of(lease, c.ID) && c.begun <= j.now && c.TTL == ttl {
			last = i + 1
			if j.now <= c.At {
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
