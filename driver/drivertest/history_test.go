// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
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
