// SPDX-License-Identifier: Apache-2.0

// Package drivertest is the suite that every store of package pawl must pass,
// ours and anybody's.
//
// A store runs it in a test of its own:
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, drivertest.Harness{
//			Start: func(t testing.TB) drivertest.Store {
//				return drivertest.Store{Open: func(t testing.TB) driver.Driver { … }}
//			},
//		})
//	}
//
// The suite checks more than that locking works. It ends leases without telling their
// holders, cuts clients off, loses replies, cancels at the worst moment, and runs
// generated histories of operations beside package memlock, the reference model.
//
// Each test has a stable name, a sentence of the contract. What a store does not
// promise is skipped, by name, and the list of skips is kept in a golden file,
// below what the store has and lacks, so that a test which silently ceases to run
// turns red.
//
// Environment variables:
//
//	DRIVERTEST_UPDATE=1      write the golden file
//	DRIVERTEST_SEED=n        run only the generated history of seed n
//	DRIVERTEST_HISTORIES=n   run n generated histories
//	DRIVERTEST_SETS=10s      take sets of names for so long, instead of a second
package drivertest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Harness tells Run how to reach the store under test. Start is required; the
// zero value of every other field is useful.
type Harness struct {
	// Start makes a store ready: a fresh one, or one shared by all tests, since
	// each test uses names of its own. It is called inside the bubble and may be
	// called several times in one test.
	Start func(t testing.TB) Store

	// Bubble runs f in fake time: synctest.Test, for a store that lives in the
	// process. Nil runs f directly.
	Bubble func(t *testing.T, f func(t *testing.T))

	// TTL is that of the leases which the suite waits to see expire: 30 s in a
	// bubble, else 1 s, unless set. A test that finds that the machine was too late
	// for it begins again with twice the TTL. Other leases are for LongTTL.
	TTL time.Duration

	// Slack is how late the store may be: in freeing an expired lease, in waking
	// a waiter. 5 ms in a bubble, else 1 s, unless set.
	Slack time.Duration

	// Pause is how long a call must not have returned to count as waiting: 1 ms
	// in a bubble, else 50 ms, unless set.
	Pause time.Duration

	// Recovery is how long a store that was restarted may refuse to grant, so that
	// leases which it may have forgotten end before.
	Recovery time.Duration

	// Histories is how many generated histories to run: 300 in a bubble, else
	// 20, unless set.
	Histories int

	// Parallel runs the tests in parallel. Restart and Cut must then not disturb
	// other tests.
	Parallel bool

	// Golden is the file with the list of tests that run and that are skipped:
	// testdata/conformance.txt unless set.
	Golden string

	real     bool          // not in a bubble
	long     time.Duration // see LongTTL
	longest  time.Duration // TTL, however late the machine is
	restarts time.Duration // see RestartTTL
}

// Store is the store under test. Open is required; tests whose hook is nil are
// skipped.
type Store struct {
	// Open returns a new independent participant, as in a process of its own.
	Open func(t testing.TB) driver.Driver

	// Crash ends a participant as SIGKILL ends its process: it says no more, and
	// the store finds out as it would.
	Crash func(t testing.TB, d driver.Driver)

	// Restart stops the store, not its participants, and starts it again. A test that calls it has
	// "restart" in its name, and no lease of it is for more than RestartTTL. Those of other tests
	// are for up to LongTTL.
	Restart func(t testing.TB)

	// Cut loses all that passes between a participant and the store until Heal.
	Cut, Heal func(t testing.TB, d driver.Driver)

	// Late opens a participant that hears all answers of the store late, by that much at least: see
	// SlowTo. Nil: whether trust counts from the request is not checked.
	Late func(t testing.TB, late time.Duration) driver.Driver

	// Left lists what the store keeps of names that begin with prefix: keys, nodes,
	// files; but not what it keeps on purpose when nobody holds a name or waits for
	// it, such as the last token. Nil: it cannot be listed.
	Left func(t testing.TB, prefix string) []string
}

func (h Harness) withDefaults() *Harness {
	if h.Start == nil {
		panic("drivertest: Harness.Start is nil")
	}
	set := func(d *time.Duration, bubble, real time.Duration) {
		if *d == 0 {
			*d = real
			if h.Bubble != nil {
				*d = bubble
			}
		}
	}
	set(&h.TTL, 30*time.Second, time.Second)
	set(&h.Slack, 5*time.Millisecond, time.Second)
	set(&h.Pause, time.Millisecond, 50*time.Millisecond)
	if h.Histories == 0 {
		h.Histories = 20
		if h.Bubble != nil {
			h.Histories = 300
		}
	}
	h.real = h.Bubble == nil
	h.long, h.restarts = LongTTL(h.TTL, h.Slack), RestartTTL(h.TTL, h.Slack)
	h.longest = h.long / 4
	if h.real {
		h.Bubble = func(t *testing.T, f func(*testing.T)) { f(t) }
	}
	if h.Golden == "" {
		h.Golden = "testdata/conformance.txt"
	}
	return &h
}

// Test is one test of the suite.
type Test struct {
	// Name is a sentence of the contract. It does not change.
	Name string
	// Needs are the guarantees, interfaces and hooks without which the test is
	// skipped, by the names they have in packages driver and drivertest.
	Needs []string

	run func(*env)
}

// Tests is the suite.
var Tests = slices.Concat(
	grantTests, expiryTests, nameTests, queueTests, inspectTests, breakTests, reserveTests,
	sharedTests, sharedQueueTests, downgradeTests, slotsTests, kindLoadTests, adoptTests, recallTests,
	disasterTests, hammerTests, clientTests, clientEndTests, clientLossTests, clientFaultTests, clientKindTests, clientSetTests, historyTests,
)

// RestartTTL returns the TTL of the longest leases in tests that restart the store, with the TTL
// and Slack of a Harness. A store that may have forgotten leases grants nothing for as long as
// the longest of them may last, which such a test has to wait for.
func RestartTTL(ttl, slack time.Duration) time.Duration { return 5*ttl + 3*slack }

// LongTTL returns the TTL of leases that must not end during a test, with the TTL and Slack of a
// Harness. It is that of the longest leases of tests that do not restart the store.
func LongTTL(ttl, slack time.Duration) time.Duration {
	return max(20*ttl+10*slack, time.Minute)
}

// Shared returns a Start that gives all tests one store, which it starts now with start. So
// participants of other tests are there, too. A test that restarts its store gets a new one,
// from own.
func Shared(t testing.TB, start, own func(testing.TB) Store) func(testing.TB) Store {
	shared := start(t)
	return func(t testing.TB) Store {
		if strings.Contains(t.Name(), "restart") {
			return own(t)
		}
		return shared
	}
}

// Run runs the suite as subtests of t and compares what was skipped with
// h.Golden. With -short, a real store is spared faults and load.
func Run(t *testing.T, h Harness) {
	hp := h.withDefaults()
	rep := new(report)
	t.Cleanup(func() { rep.compare(t, hp.Golden) })
	for _, test := range Tests {
		t.Run(test.Name, func(t *testing.T) {
			if hp.Parallel {
				t.Parallel()
			}
			if testing.Short() && slow(test) && hp.real {
				t.Skip("-short: no faults and no load on real stores")
			}
			hp.Bubble(t, func(t *testing.T) {
				missing, has := runTest(t, hp, test)
				rep.add(test.Name, missing, has)
				if missing != "" {
					t.Skip("the store has no " + missing)
				}
			})
		})
	}
}

// slow says whether a test restarts or cuts its store, kills participants, or loads the
// store: what go test -short leaves out.
func slow(test Test) bool {
	for _, tests := range [][]Test{kindLoadTests, disasterTests, hammerTests, clientFaultTests, historyTests} {
		if slices.ContainsFunc(tests, func(other Test) bool { return other.Name == test.Name }) {
			return true
		}
	}
	return slices.ContainsFunc(test.Needs, func(what string) bool {
		return what == "Restart" || what == "Cut" || what == "Crash"
	})
}

// runTest runs one test and returns "", or what it lacked to be run at all, and
// what is known of what the store has.
func runTest(t testing.TB, h *Harness, test Test) (missing string, has map[string]bool) {
	e := newEnv(t, h)
	for e.attempt(func(e *env) { missing = e.missing(test.Needs) }) {
		e = e.slower()
	}
	if missing != "" {
		return missing, e.has
	}
	for e.attempt(test.run) {
		e = e.slower()
	}
	return "", e.has
}
