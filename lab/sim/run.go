// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// lockName is what all clients want.
const lockName = "job"

// world is one run of a plan.
type world struct {
	plan     Plan
	rec      *recorder
	nodes    []*node
	links    [][]*link // by client and node
	resource *resource
	watch    *watch
	begun    bool // the clients are connected; faults may happen

	mu     sync.Mutex
	leases map[string]int        // the numbers of leases, by id
	owners []int                 // their clients, by number
	stalls map[int]time.Duration // until when a client stands still by its script
}

func (w *world) now() time.Duration { return w.rec.now() }

// Run runs a plan and returns its history. The time of the plan passes as fast as the
// processor can run it.
func Run(t *testing.T, p Plan) *History {
	var h *History
	synctest.Test(t, func(*testing.T) {
		w := newWorld(p)
		w.run()
		h = w.rec.finish()
	})
	h.Plan = p
	return h
}

func newWorld(p Plan) *world {
	w := &world{plan: p, rec: &recorder{begin: time.Now()}, leases: make(map[string]int), owners: []int{0}, stalls: make(map[int]time.Duration)}
	w.resource = &resource{w: w}
	w.watch = &watch{w: w, known: make(map[string]bool)}
	for i := range p.Nodes {
		w.nodes = append(w.nodes, newNode(w, i+1))
	}
	for c := range p.Clients {
		var links []*link
		for _, n := range w.nodes {
			links = append(links, &link{w: w, client: c + 1, node: n})
		}
		w.links = append(w.links, links)
	}
	return w
}

func (w *world) run() {
	var clients []*client
	for i := range w.plan.Clients {
		clients = append(clients, w.connect(i+1))
	}
	w.rec.begin, w.begun = time.Now(), true
	for i := range w.plan.Faults {
		w.plan.Faults[i].schedule(w)
	}
	if w.plan.Prompt > 0 {
		time.AfterFunc(w.plan.Prompt, w.watch.prompt)
	}
	var wait sync.WaitGroup
	for _, c := range clients {
		wait.Go(func() { c.follow(w.plan.Clients[c.id-1]) })
	}
	wait.Wait()
	w.lastRound(clients)
	for _, c := range clients {
		wait.Go(c.close)
	}
	wait.Wait()
	// Requests that are still under way end before the bubble does.
	time.Sleep(w.plan.Length + time.Hour)
}

// connect makes a client. All clients connect before the first fault: the simulation does
// not test how they connect.
func (w *world) connect(id int) *client {
	c := &client{w: w, id: id, random: rand.New(rand.NewPCG(w.plan.Seed, uint64(id)))}
	var nodes []nodewire.Node
	for _, l := range w.links[id-1] {
		nodes = append(nodes, l)
	}
	opts := &redlock.Options{
		Options:     redislock.Options{MaxTTL: w.plan.TTL},
		Quorum:      w.plan.Quorum,
		Rand:        rand.NewPCG(w.plan.Seed, uint64(id)<<32),
		NodeTimeout: w.plan.NodeTimeout,
		AllowSingle: true,
	}
	if w.plan.FirstToken > 0 {
		opts.WallClock = w.tokens
	}
	if w.plan.Ahead != nil {
		opts.WallClock = func() time.Time { return time.Now().Add(w.plan.Ahead[id-1]) }
	}
	opts.TTL = w.plan.TTL
	opts.Holder = pawl.Holder{Who: ClientLane(id), User: "u", Host: "h", PID: id, Command: "c"}
	opts.Observer = c.observer()
	store, err := redlock.NewStoreOn(context.Background(), nodes, opts)
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err)) // no fault has begun yet
	}
	store = &apart{store, w, id}
	if o := w.plan.Off; o.Elapsed || o.Deadline {
		store = o.store(store)
	}
	c.locks, err = pawl.New(store, &opts.Options.Options)
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
	return c
}

func (w *world) link(client, node int) *link { return w.links[client-1][node-1] }

// asked gives a lease its number when its client first asks. Attempts of one lease share the number.
func (w *world) asked(client int, id string) {
	id, _, _ = strings.Cut(id, ".")
	w.mu.Lock()
	_, known := w.leases[id]
	if !known {
		w.leases[id] = len(w.leases) + 1
		w.owners = append(w.owners, client)
	}
	n := w.leases[id]
	w.mu.Unlock()
	if !known {
		w.rec.add(Event{Lane: ClientLane(client), Kind: Asks, Client: client, Lease: n})
	}
}

// number returns the number of a lease, 0 if it has none.
func (w *world) number(id string) int {
	id, _, _ = strings.Cut(id, ".")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leases[id]
}

// owner returns the client of a lease.
func (w *world) owner(id string) int {
	n := w.number(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owners[n]
}

// attempt returns the number of an attempt among the attempts of all leases, a multiple of 256.
func (w *world) attempt(id string) uint64 {
	_, suffix, _ := strings.Cut(id, ".")
	n, _ := strconv.ParseUint(suffix, 10, 16) // the first has no suffix
	return uint64(w.number(id))<<24 | n<<8
}

// paused returns for how much longer, at an instant, the client stands still.
func (w *world) paused(client int, at time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, w.stalls[client]-at)
}

// stop makes the client stand still for d.
func (w *world) stop(client int, d time.Duration) {
	until := w.now() + d
	w.mu.Lock()
	w.stalls[client] = max(w.stalls[client], until)
	w.mu.Unlock()
	w.rec.add(Event{Lane: ClientLane(client), Kind: Stopped, Client: client, Until: until})
}

// tokens is the clock that tokens follow if the plan has one.
func (w *world) tokens() time.Time {
	return time.UnixMicro(int64(w.plan.FirstToken) + int64(w.now()/w.plan.TokenTick))
}

// schedule makes the fault happen.
func (f *Fault) schedule(w *world) {
	at := func(t time.Duration, do func()) { time.AfterFunc(t-w.now(), do) }
	for _, n := range w.nodes {
		if f.Node != 0 && f.Node != n.id {
			continue
		}
		switch f.What {
		case Crash, Forget, Promote:
			at(f.At, func() { n.crash(f.At + f.For) })
			at(f.At+f.For, func() { n.boot(f.keeps) })
		case Jump:
			at(f.At, func() { n.adjust(f.D, 0) })
		case Pace:
			at(f.At, func() { n.adjust(0, f.Chance) })
		}
	}
	switch f.What {
	case Cut, Slow, Lose, Repeat:
		at(f.At, func() { w.linksFail(f) })
	case Stop:
		at(f.At, func() { w.stop(f.Client, f.For) })
	}
}

// keeps reports whether a node still knows, after a crash, a lock that was granted at this
// time. A replica knows the locks from before it was cut off. It matters little that clocks
// differ by what Pace allows.
func (f *Fault) keeps(granted time.Duration) bool {
	switch f.What {
	case Forget:
		return false
	case Promote:
		return granted < f.At-f.D
	}
	return true
}

func (w *world) linksFail(f *Fault) {
	kind := SlowLinks
	if f.What == Cut {
		kind = CutOff
	}
	for c, links := range w.links {
		for _, l := range links {
			if f.active(f.At, c+1, l.node.id) {
				w.rec.add(Event{Lane: ClientLane(c + 1), Kind: kind, Client: c + 1, Node: l.node.id, Until: f.At + f.For, Text: string(f.What)})
			}
		}
	}
}

// lastRound makes every client get the lock once more, after all faults have ended.
func (w *world) lastRound(clients []*client) {
	for i := range w.plan.Faults {
		f := &w.plan.Faults[i]
		time.Sleep(f.At + f.For - w.now())
	}
	// Abandoned leases end, and leases that nodes may have forgotten.
	time.Sleep(3 * w.plan.TTL)
	var wait sync.WaitGroup
	for _, c := range clients {
		wait.Go(func() {
			pause := time.Duration(c.id) * time.Microsecond
			if w.plan.Name == "" { // first the client gives up while it asks, and must leave nothing at the nodes
				_ = c.step(Step{Patience: between(c.random, 100*time.Microsecond, 2*time.Millisecond), Wait: pause, Try: c.id%2 == 0})
			}
			s := Step{Patience: w.plan.TTL, Work: w.plan.TTL / 50, Wait: pause}
			if err := c.step(s); err != nil {
				w.rec.violated(Stuck, "client %d did not get the lock within %v, with nothing in its way: %v", c.id, s.Patience, err)
			}
		})
	}
	wait.Wait()
	time.Sleep(w.plan.paid())
	w.check(func(string) bool { return true })
}

// check checks that no node has the lock of a lease that is over.
func (w *world) check(over func(lease string) bool) {
	for _, n := range w.nodes {
		n.mu.Lock()
		for _, l := range n.model.Name(lockName).Locks {
			if over(l.Lease) {
				w.rec.violated(LeftBehind, "%s still has lease %d", n.lane, w.number(l.Lease))
			}
		}
		n.mu.Unlock()
	}
}

// paid returns how soon all nodes know which leases have ended, once no fault is in the way. The last
// request may have been lost: the client waits for its answer for TTL/2, sends the next request within a second, and
// waits for that answer for another second.
func (p *Plan) paid() time.Duration { return p.TTL/2 + 2*time.Second }

// released checks that soon no node has the lock of a lease that its client has released.
func (w *world) released(lease *pawl.Lease) {
	// With Repeat, an answered request may come again after the release. The client cannot
	// know of it; connections do not repeat requests.
	if slices.ContainsFunc(w.plan.Faults, func(f Fault) bool { return f.What == Repeat }) {
		return
	}
	from, paid := w.now(), w.plan.paid()
	for again := true; again; {
		again = false
		for _, f := range w.plan.Faults {
			if end := f.At + f.For; f.At < from+paid && end > from {
				from, again = end, true
			}
		}
	}
	time.AfterFunc(from+paid-w.now(), func() {
		w.check(func(id string) bool { return w.number(id) == w.number(lease.ID()) })
	})
}
