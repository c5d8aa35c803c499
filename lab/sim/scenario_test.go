// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// scenario is a well-known story of how locks fail, as a plan with the protection against
// it, and a plan without.
type scenario struct {
	Name       string
	Title      string
	Protection string // what only the safe plan has
	Rule       Rule   // what the unsafe plan breaks
	Safe       Plan
	Unsafe     Plan
}

// scenarios returns the stories of Redis's page on distributed locks, and of its critics.
func scenarios() []scenario {
	return []scenario{restart(), failover(), gcPause(), clockJump(), partition(), slowAcquire(), splitVote(), readers()}
}

// five is a plan for five nodes and a TTL of 10 s.
func five(name string, clients ...Script) Plan {
	return Plan{
		Name: name, Nodes: 5, TTL: 10 * time.Second, Length: 20 * time.Second,
		Clients: clients, FirstToken: 33, TokenTick: time.Second,
	}
}

// without returns a copy of the plan with protections switched off.
func (p Plan) without(o Off) Plan {
	p.Off = o
	return p
}

// cutOff keeps a client from nodes until the story is over.
func cutOff(client int, nodes ...int) []Fault {
	var all []Fault
	for _, n := range nodes {
		all = append(all, Fault{What: Cut, For: 25 * time.Second, Client: client, Node: n})
	}
	return all
}

func restart() scenario {
	p := five("restart",
		Script{{Work: 8 * time.Second, Writes: 3, Patience: time.Second}},
		Script{{Wait: 2500 * time.Millisecond, Work: 4 * time.Second, Writes: 1, Patience: 30 * time.Second}})
	p.Faults = append(cutOff(1, 4, 5), Fault{What: Forget, At: time.Second, For: time.Second, Node: 3})
	return scenario{
		Name:       "restart",
		Title:      "A node crashes, comes back empty, and votes a second time",
		Protection: "a node that has restarted grants nothing until all that it may have forgotten has ended",
		Rule:       TwoHolders,
		Safe:       p,
		Unsafe:     p.without(Off{Quarantine: true}),
	}
}

func failover() scenario {
	p := five("failover",
		Script{{Work: 8 * time.Second, Writes: 3, Patience: time.Second}},
		Script{{Wait: 2500 * time.Millisecond, Work: 4 * time.Second, Writes: 1, Patience: 30 * time.Second}})
	p.Nodes = 1
	p.Faults = []Fault{{What: Promote, At: time.Second, For: time.Second, Node: 1, D: 5 * time.Second}}
	return scenario{
		Name:       "failover",
		Title:      "The only master fails, and its replica has never heard of the lock",
		Protection: "a node that has taken over grants nothing until all that it may lack has ended",
		Rule:       TwoHolders,
		Safe:       p,
		Unsafe:     p.without(Off{Quarantine: true}),
	}
}

func gcPause() scenario {
	p := five("gc-pause",
		Script{{Work: 4 * time.Second, Writes: 1, Stall: 16 * time.Second, Patience: time.Second}},
		Script{{Wait: 4 * time.Second, Work: 4 * time.Second, Writes: 2, Patience: 30 * time.Second}})
	p.TokenTick = time.Hour
	return scenario{
		Name:       "gc-pause",
		Title:      "A process looks at its lease, stops for a while, and writes when the lease is long over",
		Protection: "the resource refuses a token that is smaller than one it has seen",
		Rule:       StaleWrite,
		Safe:       p,
		Unsafe:     p.without(Off{Fence: true}),
	}
}

func clockJump() scenario {
	p := five("clock-jump",
		Script{{Work: 8 * time.Second, Writes: 3, Patience: time.Second}},
		Script{{Wait: 2500 * time.Millisecond, Work: 4 * time.Second, Writes: 1, Patience: 30 * time.Second}})
	jump := Fault{What: Jump, At: 1500 * time.Millisecond, Node: 3, D: time.Minute}
	safe, unsafe := p, p
	unsafe.Faults = append(cutOff(1, 4, 5), jump)
	safe.Faults = append(cutOff(1, 5), jump)
	safe.Quorum = 4
	return scenario{
		Name:       "clock-jump",
		Title:      "A node's clock is set forward, and the lock there expires before its time",
		Protection: "a quorum of four of five, which bears one node that forgets",
		Rule:       TwoHolders,
		Safe:       safe,
		Unsafe:     unsafe,
	}
}

func partition() scenario {
	p := five("partition",
		Script{{Work: 18 * time.Second, Writes: 8, Patience: time.Second}},
		Script{{Wait: 4 * time.Second, Work: 4 * time.Second, Writes: 2, Patience: 30 * time.Second}})
	p.Faults = []Fault{{What: Cut, At: time.Second, For: 18 * time.Second, Client: 1}}
	return scenario{
		Name:       "partition",
		Title:      "A holder is cut off from all nodes, and works on",
		Protection: "a lease is trusted until its deadline and not longer, whatever the network does",
		Rule:       TwoHolders,
		Safe:       p,
		Unsafe:     p.without(Off{Deadline: true}),
	}
}

func slowAcquire() scenario {
	p := five("slow-acquire",
		Script{{Work: 9 * time.Second, Writes: 6, Patience: 20 * time.Second, NoRenew: true}},
		Script{{Wait: 9 * time.Second, Work: 4 * time.Second, Writes: 2, Patience: 30 * time.Second}})
	p.NodeTimeout = 9 * time.Second
	p.Faults = []Fault{{What: Slow, For: 8 * time.Second, Client: 1, D: 4 * time.Second}}
	return scenario{
		Name:       "slow-acquire",
		Title:      "The answers take so long that most of the lease is over when they come",
		Protection: "a lease is trusted from before the request was sent",
		Rule:       TwoHolders,
		Safe:       p,
		Unsafe:     p.without(Off{Elapsed: true}),
	}
}

func splitVote() scenario {
	s := func(wait time.Duration) Script { // waits of a few nanoseconds: links take far longer
		return Script{{Wait: wait, Work: 500 * time.Millisecond, Writes: 1, Patience: 8 * time.Second}}
	}
	p := five("split-vote", s(1), s(2), s(3))
	p.Prompt = 5 * time.Second
	// Each client is nearest to different nodes.
	for client, near := range [][]int{{1, 2}, {3, 4}, {5}} {
		for n := range 5 {
			if !slices.Contains(near, n+1) {
				p.Faults = append(p.Faults, Fault{What: Slow, For: time.Second, Client: client + 1, Node: n + 1, D: 10 * time.Millisecond})
			}
		}
	}
	return scenario{
		Name:       "split-vote",
		Title:      "Three ask at the same time, each gets some nodes, and nobody a quorum",
		Protection: "a client that has failed gives back what it got at once, and asks again after a random time",
		Rule:       Stuck,
		Safe:       p,
		Unsafe:     p.without(Off{Ending: true}),
	}
}

func readers() scenario {
	read := func(first time.Duration) (s Script) {
		for i := range 5 {
			s = append(s, Step{Shared: true, Wait: 100 * time.Millisecond, Work: 3 * time.Second, Patience: 30 * time.Second})
			if i == 0 {
				s[0].Wait += first
			}
		}
		return s
	}
	p := five("readers", read(0), read(1500*time.Millisecond),
		Script{{Wait: 2500 * time.Millisecond, Work: 2 * time.Second, Writes: 1, Patience: 10 * time.Second, Must: true}})
	return scenario{
		Name:       "readers",
		Title:      "Readers come and go, at any time one of them has the lock, and a writer waits",
		Protection: "a waiting writer says so at the nodes, and they let no new readers in",
		Rule:       Stuck,
		Safe:       p,
		Unsafe:     p.without(Off{Wishes: true}),
	}
}

// TestScenarios runs each scenario with its protection and without. To read what happens:
//
//	go test -v -run TestScenarios/restart ./lab/sim
func TestScenarios(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			safe := Run(t, s.Safe)
			if len(safe.Violations) > 0 {
				t.Errorf("with %s: %v", s.Protection, safe.Violations)
			}
			// Everybody gets the lock by its script, and in the last round.
			want := len(s.Safe.Clients)
			for _, script := range s.Safe.Clients {
				want += len(script)
			}
			if safe.Grants != want {
				t.Errorf("with %s: %d leases, want %d", s.Protection, safe.Grants, want)
			}
			unsafe := Run(t, s.Unsafe)
			if !slices.ContainsFunc(unsafe.Violations, func(v Violation) bool { return v.Rule == s.Rule }) {
				t.Errorf("without %s: %v; want %q", s.Protection, unsafe.Violations, s.Rule)
			}
			t.Logf("%s.\n\nThe protection: %s.\n%v\nWithout it:\n%v", s.Title, s.Protection, safe, unsafe)
		})
	}
}

// TestSeed shows what the plan of a seed comes to: SIM_SEED=7 go test -v -run TestSeed ./lab/sim. With SIM_UNSAFE=1 nodes
// grant at once after they have lost their data.
func TestSeed(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("SIM_SEED"), 10, 64)
	plan := Draw(seed)
	plan.Off.Quarantine = os.Getenv("SIM_UNSAFE") != ""
	h := Run(t, plan)
	if len(h.Violations) > 0 && !plan.Off.Quarantine {
		t.Error(h.Violations[0])
	}
	t.Logf("%d nodes, leases of %v, %v\n%v", plan.Nodes, plan.TTL, plan.Faults, h)
}
