// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// TestHistoryIsReduced gives wrong stores to the generated histories and checks
// that each is found, that the seed is told, and that little is left to read.
func TestHistoryIsReduced(t *testing.T) {
	for name, most := range map[string]int{
		"release without owner check":         6,
		"late renewal revives":                3,
		"token forgotten on release":          3,
		"break does not look at the id":       5,
		"cancelled waiter stays in the queue": 6,
		"no queue":                            6,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := mutants[slices.IndexFunc(mutants, func(m *mutant) bool { return m.name == name })]
			failed, log := inBubble(t, m, historyTests[0])
			if !failed {
				t.Fatal("the histories do not find it")
			}
			text := strings.Join(log, "")
			t.Log(text)
			found := regexp.MustCompile(`DRIVERTEST_SEED=\d+.\s+The history, reduced from \d+ operations to (\d+):`).FindStringSubmatch(text)
			if found == nil {
				t.Fatal("the failure does not say which seed it was, and how long")
			}
			if n, _ := strconv.Atoi(found[1]); n > most || n == 0 {
				t.Errorf("%d operations are left; want at most %d", n, most)
			}
		})
	}
}

// closing is a driver that tells that it is closed.
type closing struct {
	fullDriver
	open *int
}

func (c closing) Close() error {
	*c.open--
	return c.fullDriver.Close()
}

// TestHistoryEndsTheCrashed: at the end of a history all of its participants are closed.
func TestHistoryEndsTheCrashed(t *testing.T) {
	open, opened := 0, 0
	h := Harness{Start: func(testing.TB) Store {
		s := new(memlock.Store)
		return Store{
			Open: func(testing.TB) driver.Driver {
				open, opened = open+1, opened+1
				return closing{s.Driver().(fullDriver), &open}
			},
			Crash: func(_ testing.TB, d driver.Driver) { s.Crash(d.(closing).fullDriver) },
		}
	}}
	e := newEnv(t, h.withDefaults())
	if trace, bad := e.runHistory([]operation{{do: doCrash}, {id: 1, do: doCrash}, {id: 2, do: doTry, who: 1, name: "a", d: e.h.TTL}}, nil); bad {
		t.Fatal(trace)
	}
	if opened != historyParticipants+2 || open != 0 {
		t.Errorf("of %d participants %d are still open", opened, open)
	}
}

func TestReduce(t *testing.T) {
	var ops []operation
	for i := range 100 {
		ops = append(ops, operation{id: i})
	}
	ids := func(ops []operation) (ids []int) {
		for _, op := range ops {
			ids = append(ids, op.id)
		}
		return ids
	}
	for _, want := range [][]int{{0}, {99}, {3, 50, 51, 98}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}} {
		runs := 0
		got := ids(reduce(ops, func(ops []operation) bool {
			runs++
			left := ids(ops)
			return !slices.ContainsFunc(want, func(id int) bool { return !slices.Contains(left, id) })
		}))
		if !slices.Equal(got, want) || runs > 500 {
			t.Errorf("reduced to %v in %d runs; want %v", got, runs, want)
		}
	}
}

func TestGenerateIsDeterministic(t *testing.T) {
	e := &env{h: mutants[0].harness()}
	weight := map[action]int{doTry: 3, doSleep: 2, doBreak: 1}
	a, b, c := e.generate(7, weight), e.generate(7, weight), e.generate(8, weight)
	if !slices.Equal(a, b) {
		t.Error("one seed gives two histories")
	}
	if slices.Equal(a, c) {
		t.Error("two seeds give one history")
	}
}

// TestFewHistoriesFindWrongKinds: as few as are run on a real server, where nothing
// waits and nothing expires, find each of these.
func TestFewHistoriesFindWrongKinds(t *testing.T) {
	for _, name := range []string{
		"shared is exclusive", "exclusive is shared", "one slot too many", "one slot too few", "slots are shared leases",
		"exclusive takes a slot", "slots of another number are only held", "release of one reader ends all",
		"readers have one token", "slots have one token", "downgrade does nothing", "downgrade releases", "downgrade revives",
		"inspect hides the kinds",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(mutants, func(m *mutant) bool { return m.name == name })
			synctest.Test(t, func(t *testing.T) {
				h := mutants[i].harness()
				h.Slack, h.Pause, h.Histories = h.TTL, h.TTL/20, realHistories
				failed, log := record(t, func(tb testing.TB) { runTest(tb, h, historyTests[0]) })
				if !failed {
					t.Error("the histories do not find it")
				}
				t.Log(log)
			})
		})
	}
}

// realHistories is the least number that a store of ours runs.
const realHistories = 8

// TestHistoriesHaveEveryKind: where nobody got a lease of a kind, the histories do
// not pass for having shown something about it.
func TestHistoriesHaveEveryKind(t *testing.T) {
	all := driver.Guarantees{Shared: true, Slots: true}
	for _, kind := range []string{"exclusive", "shared", "slots", "downgraded", ""} {
		done := map[string]int{"exclusive": 1, "shared": 1, "slots": 1, "downgraded": 1}
		delete(done, kind)
		failed, log := record(t, func(tb testing.TB) { (&env{TB: tb}).covered(done, all, true) })
		if failed != (kind != "") || failed && !strings.Contains(log[0], "was a lease "+kind) {
			t.Errorf("without %q: failed %v, %q", kind, failed, log)
		}
	}
	failed, log := record(t, func(tb testing.TB) {
		(&env{TB: tb}).covered(map[string]int{"exclusive": 1}, driver.Guarantees{}, false)
	})
	if failed {
		t.Errorf("kinds that the store does not have: %q", log)
	}
}
