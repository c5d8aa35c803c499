// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var historyTests = []Test{
	{Name: "generated-histories-agree-with-the-model", run: histories},
}

// action is the kind of an operation in a history.
type action int

const (
	doTry action = iota
	doWait
	doCancel
	doRenew
	doRelease
	doDowngrade
	doBreak
	doInspect
	doCrash
	doSleep
)

// operation is one step of a history. Its id does not change when other
// operations are left out, so a history with fewer operations still makes sense:
// an operation on the grant of one that is gone, or got none, does nothing.
type operation struct {
	id   int
	do   action
	who  int           // the participant
	name string        // of the lock
	ref  int           // id of the operation whose grant or attempt is meant
	d    time.Duration // TTL, or time to sleep

	shared bool // what is asked for
	slots  int
}

func (o operation) String() string {
	kind := ""
	switch {
	case o.shared:
		kind = "shared "
	case o.slots > 0:
		kind = fmt.Sprintf("one of %d slots of ", o.slots)
	}
	what := map[action]string{
		doTry:       fmt.Sprintf("p%d try %s%q for %v", o.who, kind, o.name, o.d),
		doWait:      fmt.Sprintf("p%d wait for %s%q for %v", o.who, kind, o.name, o.d),
		doCancel:    fmt.Sprintf("cancel #%d", o.ref),
		doRenew:     fmt.Sprintf("renew #%d for %v", o.ref, o.d),
		doRelease:   fmt.Sprintf("release #%d", o.ref),
		doDowngrade: fmt.Sprintf("downgrade #%d for %v", o.ref, o.d),
		doBreak:     fmt.Sprintf("p%d break #%d of %q", o.who, o.ref, o.name),
		doInspect:   fmt.Sprintf("p%d inspect %q", o.who, o.name),
		doCrash:     fmt.Sprintf("p%d crash", o.who),
		doSleep:     fmt.Sprintf("sleep %v", o.d),
	}
	return fmt.Sprintf("#%-3d %s", o.id, what[o.do])
}

const historyParticipants = 3

// abilities are the operations that a store can do, and how often each is drawn.
func (e *env) abilities() map[action]int {
	weight := map[action]int{doTry: 10, doRelease: 8}
	d := e.open()
	sure := d.Guarantees()
	if sure.Expiry {
		weight[doRenew] = 6
		if e.fake() {
			weight[doSleep] = 8
		}
	}
	if e.fake() && sure.FIFO && e.missing(queuer) == "" {
		weight[doWait], weight[doCancel] = 8, 3
	}
	if e.missing(downgrader) == "" {
		weight[doDowngrade] = 6
	}
	if e.missing(inspector) == "" {
		weight[doBreak], weight[doInspect] = 4, 2
	}
	if e.store.Crash != nil {
		weight[doCrash] = 1
	}
	return weight
}

// generate returns the history of a seed.
func (e *env) generate(seed uint64, weight map[action]int) []operation {
	r := rand.New(rand.NewPCG(seed, 0))
	total := 0
	for _, w := range weight {
		total += w
	}
	ops := make([]operation, 30+r.IntN(30))
	asked := []int{0} // the ids of operations that may have a grant or an attempt
	for i := range ops {
		ops[i] = operation{
			id: i, do: draw(r, weight, total), who: r.IntN(historyParticipants),
			name: string(rune('a' + r.IntN(2))), ref: asked[max(0, len(asked)-1-r.IntN(6))],
			d: e.h.TTL * time.Duration([]int{1, 1, 3}[r.IntN(3)]),
		}
		switch ops[i].do {
		case doTry, doWait, doDowngrade:
			asked = append(asked, i)
		}
		if weight[doSleep] == 0 {
			ops[i].d = e.long()
		} else if ops[i].do == doSleep {
			// Eighths, so that expiry is met from both sides. The pause after each
			// operation keeps them from meeting it exactly, when either outcome
			// would be right.
			ops[i].d = e.h.TTL * time.Duration([]int{1, 2, 3, 5, 8, 12}[r.IntN(6)]) / 8
		}
	}
	return ops
}

// drawKinds makes operations ask for leases of other kinds. In each fourth history
// all are exclusive; in the others one kind is more frequent than the rest, as they
// would only refuse each other. The kinds take turns, so that three histories have
// all of them (everyKind).
func drawKinds(seed uint64, ops []operation, sure driver.Guarantees) {
	r := rand.New(rand.NewPCG(seed, 1))
	often := int(seed-1) % 4
	if often == 3 {
		return
	}
	for i := range ops {
		kind := often
		if r.IntN(3) == 0 {
			kind = r.IntN(4)
		}
		switch {
		case kind == 0 && sure.Shared:
			ops[i].shared = true
		case kind == 1 && sure.Slots:
			ops[i].slots = 2
		case kind == 2 && sure.Slots:
			ops[i].slots = 2 + r.IntN(2)
		}
	}
}

func draw(r *rand.Rand, weight map[action]int, total int) action {
	n := r.IntN(total)
	for do := doTry; ; do++ {
		if n -= weight[do]; n < 0 {
			return do
		}
	}
}

// histories runs generated histories. The seeds are fixed, so that whoever runs
// the suite sees the same; DRIVERTEST_HISTORIES asks for more of them.
func histories(e *env) {
	from, n := uint64(1), e.h.Histories
	if s := os.Getenv("DRIVERTEST_HISTORIES"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	if s := os.Getenv("DRIVERTEST_SEED"); s != "" {
		from, _ = strconv.ParseUint(s, 10, 64)
		n = 1
	}
	weight, sure := e.abilities(), e.open().Guarantees()
	done := make(map[string]int)
	for seed := from; seed < from+uint64(n); seed++ {
		ops := e.generate(seed, weight)
		drawKinds(seed, ops, sure)
		first, bad := e.runHistory(ops, done)
		if !bad {
			continue
		}
		few := reduce(ops, func(ops []operation) bool {
			_, bad := e.runHistory(ops, done)
			return bad
		})
		trace, bad := e.runHistory(few, done)
		if !bad { // now and then only: the first run is all there is to see
			trace = append(append(first, "", "This history did not fail when it ran again:", ""), trace...)
		}
		e.Fatalf("the store and the model differ. Run it again with DRIVERTEST_SEED=%d.\n"+
			"The history, reduced from %d operations to %d:\n\n%s\n",
			seed, len(ops), len(few), strings.Join(trace, "\n"))
	}
	if n >= everyKind {
		e.covered(done, sure, weight[doDowngrade] > 0)
	}
}

// covered checks that there were leases of all kinds that the store has: histories
// without any of a kind test nothing of it.
func (e *env) covered(done map[string]int, sure driver.Guarantees, downgrade bool) {
	e.Helper()
	for what, some := range map[string]bool{
		"exclusive": true, "shared": sure.Shared, "slots": sure.Slots, "downgraded": downgrade,
	} {
		if some && done[what] == 0 {
			e.Errorf("in no history was a lease %s: they show nothing about such leases", what)
		}
	}
}

// everyKind is how many histories have all kinds of leases.
const everyKind = 3

// reduce returns a part of ops that still fails and of which no single operation
// can be left out. It tries to leave out large parts first (Zeller's ddmin).
func reduce(ops []operation, fails func([]operation) bool) []operation {
	for size := len(ops) / 2; size > 0; {
		smaller := false
		for at := 0; at+size <= len(ops); {
			rest := append(append([]operation(nil), ops[:at]...), ops[at+size:]...)
			if fails(rest) {
				ops, smaller = rest, true
			} else {
				at += size
			}
		}
		if !smaller || size > len(ops) {
			size = min(size/2, len(ops))
		}
	}
	return ops
}
