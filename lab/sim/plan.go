// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Plan is all that happens to the system from outside.
type Plan struct {
	Name    string // of the scenario; "" if drawn from the seed
	Seed    uint64 // of delays, and of what the clients draw
	Nodes   int
	Quorum  int             // 0: N/2+1
	TTL     time.Duration   // of leases, and MaxTTL
	Length  time.Duration   // after this, faults end, and every client must get the lock once more
	Clients []Script        // what each client does
	Ahead   []time.Duration // of each client's wall clock, which tokens follow; may be nil
	Faults  []Fault
	Off     Off // protections that are switched off

	NodeTimeout time.Duration // of the clients; 0 for the default

	// The rest is for plans that are written by hand.
	FirstToken uint64        // if positive, the clock that tokens follow begins with this token
	TokenTick  time.Duration // the time in which that clock goes on by one
	Prompt     time.Duration // if positive, a client must get the lock within this time
}

// Off names protections to switch off, to see that they are needed.
type Off struct {
	Quarantine bool // nodes grant at once after they have forgotten
	Elapsed    bool // clients trust a lease from the answer on, not from the request
	Deadline   bool // clients trust a lease until they are told that it has ended
	Fence      bool // the resource does not look at tokens
	Ending     bool // what a failed attempt got is not given back
	Wishes     bool // nodes let readers in although a writer waits
}

// Script is what one client does, one Step after the other.
type Script []Step

// Step is one lease of a client.
type Step struct {
	Wait     time.Duration // before it
	Try      bool          // TryAcquire instead of Acquire
	Shared   bool          // it reads only, and others may too
	Must     bool          // it has to get the lease within Patience
	Patience time.Duration // how long it waits
	Work     time.Duration // how long it holds
	Writes   int           // to the resource, spread over the work
	Stall    time.Duration // how long it stops before its last write, after a look at the lease
	NoRenew  bool
	Abandon  bool          // it does not release
	Next     time.Duration // if positive, another goroutine of the client waits for the lease meanwhile, and then holds it for this long
}

// What says what a Fault does.
type What string

const (
	Lose    What = "lose"    // requests and replies between Client and Node are lost, with probability Chance
	Repeat  What = "repeat"  // requests are carried out twice, with probability Chance
	Slow    What = "slow"    // requests take up to D longer, and replies too
	Cut     What = "cut"     // nothing passes
	Crash   What = "crash"   // Node is down for For, and then knows what it knew
	Forget  What = "forget"  // Node is down for For, and then knows nothing
	Promote What = "promote" // a replica of Node takes over after For, and lacks the last D of what Node knew
	Jump    What = "jump"    // Node's clock is set forward by D, or back
	Pace    What = "pace"    // Node's clock runs faster by the factor Chance from At on
	Stop    What = "stop"    // Client stands still
)

// Fault is one thing that goes wrong, at At, and for For. Client and Node are
// counted from 1; 0 means all of them.
type Fault struct {
	What   What
	At     time.Duration
	For    time.Duration
	Client int
	Node   int
	D      time.Duration
	Chance float64
}

func (f Fault) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "at %v %s", f.At, f.What)
	if f.Client > 0 {
		s.WriteString(" " + ClientLane(f.Client))
	}
	if f.Node > 0 {
		s.WriteString(" " + NodeLane(f.Node))
	}
	if f.D != 0 {
		fmt.Fprintf(&s, " by %v", f.D)
	}
	if f.Chance != 0 {
		fmt.Fprintf(&s, " %.3f", f.Chance)
	}
	if f.For != 0 {
		fmt.Fprintf(&s, " for %v", f.For)
	}
	return s.String()
}

// active reports whether the fault concerns client and node at the given time.
func (f *Fault) active(at time.Duration, client, node int) bool {
	return at >= f.At && at < f.At+f.For && (f.Client == 0 || f.Client == client) && (f.Node == 0 || f.Node == node)
}

// Draw returns the plan of a seed: three or five nodes, two or three clients, and
// faults of all kinds that the algorithm promises to tolerate.
func Draw(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	p := Plan{
		Seed:  seed,
		Nodes: 3 + 2*r.IntN(2),
		TTL:   []time.Duration{time.Second, 4 * time.Second, 10 * time.Second}[r.IntN(3)],
	}
	p.Length = 2 * p.TTL
	if r.IntN(3) == 0 { // patient clients: much of a lease may be over when a quorum has answered
		p.NodeTimeout = between(r, p.TTL/20, p.TTL/3)
	}
	for range 2 + r.IntN(2) {
		p.Clients = append(p.Clients, drawScript(r, p.TTL, p.Length))
	}
	if r.IntN(2) == 0 {
		// By less than the time for which a node that has forgotten grants nothing, even if answers take long.
		for range p.Clients {
			p.Ahead = append(p.Ahead, between(r, -p.TTL*3/10, p.TTL*3/10))
		}
	}
	p.drawReaders(rand.New(rand.NewPCG(seed, 1)))
	kinds := []What{Lose, Repeat, Slow, Cut, Cut, Crash, Forget, Forget, Promote, Pace, Stop, Stop}
	for range r.IntN(7) {
		f := drawFault(r, kinds[r.IntN(len(kinds))], &p)
		p.Faults = append(p.Faults, f)
		if f.What == Slow && f.Client > 0 && r.IntN(2) == 0 {
			// The links are slow, and then cut: trust must count from the last confirmed request.
			p.Faults = append(p.Faults, Fault{What: Cut, At: f.At + f.For, For: p.TTL + f.For, Client: f.Client})
		}
	}
	return p
}

// drawReaders makes some leases shared, in half of all plans. Readers do not write.
func (p *Plan) drawReaders(r *rand.Rand) {
	if r.IntN(2) == 0 {
		return
	}
	for _, script := range p.Clients {
		for i := range script {
			if s := &script[i]; r.IntN(3) > 0 {
				s.Shared, s.Writes = true, 0
			}
		}
	}
}

func drawScript(r *rand.Rand, ttl, length time.Duration) Script {
	var s Script
	for at := time.Duration(0); at < length; {
		st := Step{
			Wait:     between(r, time.Millisecond, ttl/3),
			Try:      r.IntN(5) == 0,
			Patience: between(r, ttl/20, 2*ttl),
			Work:     between(r, time.Millisecond, ttl/3),
			Writes:   r.IntN(4),
			NoRenew:  r.IntN(4) == 0,
			Abandon:  r.IntN(12) == 0,
		}
		if r.IntN(3) == 0 {
			st.Next = between(r, time.Millisecond, ttl/3)
		}
		switch r.IntN(8) {
		case 0:
			st.Patience = between(r, 100*time.Microsecond, 5*time.Millisecond) // it gives up in the middle of asking
		case 1:
			st.Work = between(r, ttl/2, 2*ttl)
		}
		s = append(s, st)
		at += st.Wait + st.Work + st.Next
	}
	return s
}

func drawFault(r *rand.Rand, what What, p *Plan) Fault {
	f := Fault{What: what, At: between(r, 0, p.Length), For: between(r, p.TTL/100, p.TTL)}
	client, node := 1+r.IntN(len(p.Clients)), 1+r.IntN(p.Nodes)
	switch what {
	case Lose, Repeat:
		f.Chance = r.Float64()
		f.Client, f.Node = client*r.IntN(2), node*r.IntN(2)
	case Slow:
		f.D = between(r, time.Millisecond, p.TTL/4)
		f.Client, f.Node = client*r.IntN(2), node*r.IntN(2)
	case Cut:
		f.Client, f.Node = client, node*r.IntN(2)
		f.For = between(r, p.TTL/10, 2*p.TTL)
	case Crash, Forget:
		f.Node, f.For = node, between(r, time.Millisecond, p.TTL/4)
	case Promote:
		f.Node, f.For, f.D = node, between(r, time.Millisecond, p.TTL/4), between(r, 0, p.TTL)
	case Pace:
		// Together with the drift of the client, this is within what Redlock allows.
		f.Node, f.Chance, f.For = node, (r.Float64()*2-1)*0.009, 0
	case Stop:
		f.Client, f.For = client, between(r, p.TTL/10, 2*p.TTL)
	}
	return f
}

// between draws from [low, high), in nanoseconds, so that hardly anything happens
// in the same instant.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(r.Int64N(int64(high-low)))
}
