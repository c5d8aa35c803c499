// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/proof"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// formulas are those that a solver proves: see spec/README.md.
var formulas = sync.OnceValues(func() (*proof.Model, error) { return proof.Read("../spec/proof/redlock.smt") })

// judge holds each step of a run against the formulas. Whether a round is over, and when
// a lock has expired, follows from the time: everything else is told.
type judge struct {
	w *world

	mu     sync.Mutex
	run    *proof.Run
	nodes  map[int]int64
	leases map[string]int64
	ids    []string // of leases, by their number
	rounds map[asked]*round
	places map[request]sending
	open   []*round // those that are not over
	all    []*round
	wrong  bool
}

// asked is what proposals of one round have in common.
type asked struct {
	lease          string
	token          uint64
	extend, shared bool
	at             time.Duration
}

// request is one to be in the queues, and sending when it was sent.
type request struct {
	lease string
	seq   int
}

type sending struct {
	at    time.Duration
	since driver.Instant
	claim time.Duration // for how long a lock that follows it is trusted
}

func (s sending) over() time.Duration { return s.at + s.claim }

type round struct {
	asked
	id    int64
	since driver.Instant // not before the client noted it
	over  time.Duration
	turns map[int64]sending // of a hand-over: what the votes of nodes follow
}

// newJudge makes the judge of a run with all protections, and clocks that do not step.
func newJudge(w *world) eye {
	if w.plan.Off != (Off{}) || slices.ContainsFunc(w.plan.Faults, func(f Fault) bool { return f.What == Jump }) {
		return closedEye{}
	}
	m, err := formulas()
	if err != nil {
		panic(err)
	}
	run, err := m.Run()
	if err != nil {
		panic(err)
	}
	j := &judge{w: w, run: run, nodes: map[int]int64{}, leases: map[string]int64{}, ids: []string{""}, rounds: map[asked]*round{},
		places: map[request]sending{}}
	for i := range w.plan.Nodes {
		j.nodes[i+1] = run.New("Node")
	}
	return j
}

// wrongly reports what the formulas do not allow, once: what follows may be due to it.
func (j *judge) wrongly(format string, args ...any) {
	if !j.wrong {
		j.wrong = true
		j.w.rec.violated(NoSuchStep, format, args...)
	}
}

func (j *judge) step(what, action string, args ...int64) {
	if j.wrong {
		return
	}
	if err := j.run.Step(action, args...); err != nil {
		j.wrongly("%s: %s", what, strings.ReplaceAll(err.Error(), "\n", ", "))
	}
}

// holds looks at the invariant, too, in one of eight runs: that takes as long as the run.
func (j *judge) holds() {
	if j.wrong || j.w.plan.Seed%8 != 0 {
		return
	}
	if err := j.run.Holds(); err != nil {
		j.wrongly("%s", strings.ReplaceAll(err.Error(), "\n", ", "))
	}
}

func (j *judge) lease(id string) int64 {
	l, ok := j.leases[id]
	if !ok {
		l = j.run.New("Lease")
		j.leases[id] = l
		j.ids = append(j.ids, id)
	}
	return l
}

// pass ends the windows that are over.
func (j *judge) pass() {
	now := j.w.now()
	left := j.open[:0]
	for _, r := range j.open {
		if r.over <= now {
			j.step("time passes", "pass-time", r.id)
		} else {
			left = append(left, r)
		}
	}
	j.open = left
}

func (j *judge) sends(_ int, p redlock.Proposal) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pass()
	a := asked{p.Lease, p.Token, p.Mode != redlock.Take, p.Shared, j.w.now()}
	if r := j.rounds[a]; r != nil {
		return r.id
	}
	r := &round{asked: a, id: j.run.New("Round"), since: driver.Now(), over: a.at + p.TTL - driver.Drift(p.TTL)}
	j.rounds[a], j.open, j.all = r, append(j.open, r), append(j.all, r)
	l := j.lease(p.Lease) // it may have been ended in this very instant
	if p.Shared && !a.extend {
		j.run.Set("reads", 1, l)
	}
	j.run.Set("owner", l, r.id)
	j.run.Set("token", int64(p.Token), r.id)
	if a.extend {
		j.run.Set("extends", 1, r.id)
	}
	if p.Shared {
		j.run.Set("shares", 1, r.id)
	}
	j.step("a client asks", "send", r.id)
	return r.id
}

func (j *judge) queues(p redlock.Place) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lease(p.Lease)
	if at := (request{p.Lease, p.Seq}); j.places[at].since == 0 {
		j.places[at] = sending{j.w.now(), driver.Now(), p.TTL - driver.Drift(p.TTL)}
	}
}

// turn returns the round of a lease that is handed a lock, with a token. It was sent when the waiter
// asked to be in the queue: what token it would have was not known then, and nothing depended on that.
// Votes after several such requests are of one round, which began with the earliest of those that count.
func (j *judge) turn(n *node, p redlock.Place, token uint64) *round {
	a, s := asked{lease: p.Lease, token: token}, j.places[request{p.Lease, p.Seq}]
	r := j.rounds[a]
	if r == nil {
		r = &round{asked: a, id: j.run.New("Round"), over: j.w.now() + p.TTL - driver.Drift(p.TTL), turns: map[int64]sending{}}
		j.rounds[a], j.open, j.all = r, append(j.open, r), append(j.all, r)
		j.run.Set("owner", j.lease(p.Lease), r.id)
		j.run.Set("token", int64(token), r.id)
		j.run.Set("sent", 1, r.id)
	}
	r.turns[j.nodes[n.id]] = s
	// It is over before the first of its locks ends, and before the client believes so.
	r.since, r.over = max(r.since, s.since), min(r.over, j.w.now()+p.TTL-driver.Drift(p.TTL))
	return r
}

func (j *judge) handed(n *node, from string, p redlock.Place, token uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	what := fmt.Sprintf("%s hands over to lease %d", n.lane, j.w.number(p.Lease))
	if token < p.Token {
		j.wrongly("%s, with an older token than it would have proposed", what)
	}
	r := j.turn(n, p, token)
	j.pass()
	j.step(what, "hand-over", j.nodes[n.id], j.leases[from], r.id)
	j.compare(n, what)
}

func (j *judge) gives(_ int, e redlock.Ending) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lease(e.Lease)
	if e.News == "" && j.run.Get("granted", l) == 1 && j.run.Get("released", l) == 0 && j.live(l) != 0 {
		j.wrongly("lease %d is ended while it is trusted", j.w.number(e.Lease))
	}
	j.letGo(l)
}

func (j *judge) letGo(l int64) { j.step("a client lets go", "let-go", l) }

// live returns a live round of the lease, or 0.
func (j *judge) live(l int64) int64 {
	j.pass()
	for _, r := range j.open {
		if j.run.Get("owner", r.id) == l && j.run.Get("trusted", r.id) == 1 && j.run.Get("released", l) == 0 {
			return r.id
		}
	}
	return 0
}

func (j *judge) before(n *node) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pass()
	id := j.nodes[n.id]
	s := n.at(lockName)
	for l := int64(1); l < int64(len(j.ids)); l++ {
		if j.run.Get("has", id, l) == 1 && s.of(j.ids[l]) == nil {
			j.step(fmt.Sprintf("the lock of lease %d expires at %s", j.w.number(j.ids[l]), n.lane), "expire", id, l)
		}
	}
	if j.run.Get("closed", id) == 1 && n.closed <= n.local() && !n.down {
		j.step(n.lane+" opens", "reopen", id)
	}
}

func (j *judge) voted(n *node, round int64, p redlock.Proposal, v redlock.Vote) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !v.Has {
		return
	}
	id, what := j.nodes[n.id], fmt.Sprintf("%s votes for lease %d", n.lane, j.w.number(p.Lease))
	switch from := j.leases[p.From]; {
	case p.Mode != redlock.Take:
		j.step(what, "heal", id, round)
	case p.From != "" && j.run.Get("has", id, from) == 1:
		j.step(what, "hand-over", id, from, round)
	default:
		j.step(what, "take", id, round)
	}
	j.compare(n, what)
	stored := j.run.Get("floor", id) == int64(p.Token) && j.run.Get("by", id) == j.leases[p.Lease]
	if stored != v.Stored && !j.wrong {
		j.wrongly("%s, and says that its token is stored: %v", what, v.Stored)
	}
}

func (j *judge) ended(n *node, e redlock.Ending) {
	j.mu.Lock()
	defer j.mu.Unlock()
	bar := int64(0)
	if e.Bar || e.News != "" {
		bar = 1
	}
	what := fmt.Sprintf("%s ends lease %d", n.lane, j.w.number(e.Lease))
	j.step(what, "end", j.nodes[n.id], j.lease(e.Lease), bar)
	j.compare(n, what)
}

func (j *judge) booted(n *node) {
	j.mu.Lock()
	defer j.mu.Unlock()
	id, s := j.nodes[n.id], n.at(lockName)
	single := int64(0)
	for l := int64(1); l < int64(len(j.ids)); l++ {
		kept := int64(0)
		if lock := s.of(j.ids[l]); lock != nil {
			kept = 1
			if !lock.Shared {
				single = 1
			}
		}
		j.run.Set("kept", kept, l)
	}
	loses := int64(0)
	if int64(s.floor.token) != j.run.Get("floor", id) {
		loses = 1
	}
	for _, r := range j.all {
		j.run.Set("loses", loses, r.id)
	}
	var undo floor
	if s.floor.undo != nil {
		undo = *s.floor.undo
	}
	j.step(n.lane+" starts again", "restart", id, single, int64(s.floor.token), j.leases[s.floor.owner], int64(s.floor.stands), int64(undo.stands),
		int64(s.floor.writer), int64(undo.writer))
	j.compare(n, n.lane+" starts again")
}

// compare compares what a node has with what it has by the formulas.
func (j *judge) compare(n *node, what string) {
	if j.wrong {
		return
	}
	id, s := j.nodes[n.id], n.at(lockName)
	for l := int64(1); l < int64(len(j.ids)); l++ {
		lock := s.of(j.ids[l])
		if has := j.run.Get("has", id, l) == 1; has != (lock != nil) {
			j.wrongly("%s, and has a lock of lease %d: %v; by the formulas %v", what, j.w.number(j.ids[l]), lock != nil, has)
		} else if has && lock.Shared == (j.run.Get("alone", id) == 1) {
			j.wrongly("%s, and the lock of lease %d is shared: %v", what, j.w.number(j.ids[l]), lock.Shared)
		}
	}
	for f, has := range map[string]uint64{"floor": s.floor.token, "stands": s.floor.stands, "writer": s.floor.writer} {
		if want := j.run.Get(f, id); want != int64(has) {
			j.wrongly("%s: %s is %d, by the formulas %d", what, f, has, want)
		}
	}
}

// confirmed is called when a client begins to rely on a round.
func (j *judge) confirmed(action, id string, extend bool, token uint64, since driver.Instant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pass()
	what := fmt.Sprintf("lease %d is confirmed (%s)", j.w.number(id), action)
	var of []string
	for i := len(j.all) - 1; i >= 0; i-- {
		r := j.all[i]
		if r.extend != extend || r.token != token || r.lease != id && !strings.HasPrefix(r.lease, id+".") || extend && r.since != since {
			continue
		}
		if extend && j.run.Get("released", j.leases[r.lease]) == 1 {
			return // and nobody relies on it
		}
		q, votes := j.run.New("Quorum"), 0
		for _, n := range j.nodes {
			turn, ok := r.turns[n]
			// What the driver calls the beginning is that of a whole TTL with the same end.
			counts := !ok || turn.since.Add(turn.claim) >= since.Add(j.w.plan.TTL-driver.Drift(j.w.plan.TTL))
			if j.run.Get("voted", n, r.id) == 1 && counts {
				j.run.Set("member", 1, n, q)
				votes++
				if ok {
					r.over = min(r.over, turn.over())
				}
			}
		}
		of = append(of, fmt.Sprintf("%d nodes voted", votes))
		if votes < j.quorum() {
			continue
		}
		if since > r.since || r.over <= j.w.now() {
			j.wrongly("%s: the instant is after the sending, or it is too late", what)
		}

		j.step(what, action, r.id, q)
		j.holds()
		return
	}
	j.wrongly("%s: no round has a quorum: %v", what, of)
}

func (j *judge) quorum() int {
	if j.w.plan.Quorum > 0 {
		return j.w.plan.Quorum
	}
	return j.w.plan.Nodes/2 + 1
}

func (j *judge) driver(_ int, d *redlock.Driver) driver.Driver { return &seenDriver{d, j} }

type seenDriver struct {
	*redlock.Driver
	j *judge
}

func (d *seenDriver) seen(req *driver.Request, g driver.Grant, err error) (driver.Grant, error) {
	if err != nil || g == nil {
		return g, err
	}
	d.j.confirmed("grant", req.Lease, false, g.Token(), g.Since())
	return &seenGrant{g, d, req.Lease}, nil
}

func (d *seenDriver) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := d.Driver.TryAcquire(ctx, req)
	return d.seen(req, g, err)
}

func (d *seenDriver) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := d.Driver.Acquire(ctx, req)
	return d.seen(req, g, err)
}

type seenGrant struct {
	driver.Grant
	d  *seenDriver
	id string
}

// attempt returns the lease of the attempt that was granted.
func (g *seenGrant) attempt() int64 {
	for i, id := range g.d.j.ids {
		if (id == g.id || strings.HasPrefix(id, g.id+".")) && g.d.j.run.Get("granted", int64(i)) == 1 {
			return int64(i)
		}
	}
	return 0
}

func (g *seenGrant) letGo() {
	g.d.j.mu.Lock()
	defer g.d.j.mu.Unlock()
	g.d.j.letGo(g.attempt())
}

func (g *seenGrant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	since, err := g.Grant.Renew(ctx, ttl)
	if err == nil {
		g.d.j.confirmed("extend", g.id, true, g.Token(), since)
	}
	return since, err
}

func (g *seenGrant) Release(ctx context.Context) error {
	g.letGo()
	return g.Grant.Release(ctx)
}

func (g *seenGrant) Pass(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g.letGo()
	next, err := g.Grant.(driver.Passer).Pass(ctx, req)
	return g.d.seen(req, next, err)
}

func (g *seenGrant) Downgrade(ctx context.Context) error {
	j := g.d.j
	j.mu.Lock()
	if r := j.live(g.attempt()); r != 0 {
		j.step("a lease is shared", "downgrade", r)
	}
	j.mu.Unlock()
	return g.Grant.(driver.Downgrader).Downgrade(ctx)
}

func (g *seenGrant) OnLost(f func(error)) { g.Grant.(driver.Notifier).OnLost(f) }
