// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"strings"
	"testing"
	"time"
)

// at makes a history in which the operations follow one another. Each may be moved by
// its fields call and ret.
func at(ops ...operation) []operation {
	for i := range ops {
		if ops[i].call == 0 {
			ops[i].call = int64(10*i + 1)
		}
		if ops[i].ret == 0 {
			ops[i].ret = int64(10*i + 2)
		}
	}
	return ops
}

func grant(lease int, k kind) operation {
	return operation{do: granted, lease: lease, kind: k, token: uint64(100 + lease)}
}

func lower(lease, heir int) operation {
	return operation{do: downgraded, lease: lease, heir: heir, kind: shared, token: uint64(100 + heir)}
}

func of(lease int, do action) operation { return operation{do: do, lease: lease} }

func no(k kind) operation { return operation{do: refused, kind: k} }

// late is o, which nobody has seen end.
func late(o operation) operation { o.ret = never; return o }

// from is o, begun earlier than it stands.
func from(call int64, o operation) operation { o.call = call; return o }

func token(t uint64, o operation) operation { o.token = t; return o }

func slotsHeld(held, wanted kind) operation {
	return operation{do: otherSlots, held: held, kind: wanted}
}

// TestGoodHistories: what may happen is not refused.
func TestGoodHistories(t *testing.T) {
	for name, ops := range map[string][]operation{
		"nothing":           nil,
		"one after another": at(grant(1, exclusive), no(exclusive), of(1, released), grant(2, exclusive), of(2, trusted), of(2, released)),
		"readers":           at(grant(1, shared), grant(2, shared), no(exclusive), no(2), of(1, released), of(2, released), grant(3, exclusive)),
		"slots":             at(grant(1, 2), grant(2, 2), no(2), slotsHeld(2, 3), of(1, released), grant(3, 2)),
		"waiting":           at(grant(1, exclusive), of(1, released), from(2, grant(2, exclusive))),
		"waiters, the second first": at(grant(1, exclusive), of(1, released),
			from(3, token(103, grant(2, exclusive))), from(4, token(102, grant(3, exclusive))), from(13, of(3, released))),
		"downgrade":          at(grant(1, exclusive), lower(1, 2), grant(3, shared), of(2, trusted), no(exclusive), of(2, released), of(3, released), grant(4, exclusive)),
		"expiry":             at(grant(1, exclusive), of(1, trusted), from(12, of(1, mayEnd)), grant(2, exclusive), of(1, missed)),
		"broken":             at(grant(1, shared), grant(2, shared), of(1, broke), of(1, missed), of(2, trusted), of(2, released), grant(3, 2)),
		"slots in doubt":     at(grant(1, 2), grant(2, 2), of(1, mayEnd), grant(3, 2), of(1, released), of(2, released), of(3, trusted)),
		"seen when in doubt": at(grant(1, shared), of(1, mayEnd), grant(2, shared), of(1, trusted), of(1, missed)),
		"release in doubt":   at(grant(1, exclusive), of(1, mayEnd), no(exclusive), grant(2, exclusive)),
		"release during a break that comes too late": at(grant(1, exclusive), of(1, released), from(12, of(1, missed))),
	} {
		if err := check(ops, true, patience); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBadHistories: what must not happen is refused, and it is the last operation that
// must not.
func TestBadHistories(t *testing.T) {
	for name, ops := range map[string][]operation{
		"two holders":                    at(grant(1, exclusive), grant(2, exclusive)),
		"reader beside a writer":         at(grant(1, exclusive), grant(2, shared)),
		"writer beside a reader":         at(grant(1, shared), grant(2, exclusive)),
		"slot n + 1":                     at(grant(1, 2), grant(2, 2), grant(3, 2)),
		"slots of two numbers":           at(grant(1, 2), grant(2, 3)),
		"slot beside a reader":           at(grant(1, shared), grant(2, 2)),
		"token repeated":                 at(grant(1, exclusive), of(1, released), token(101, grant(2, exclusive))),
		"token repeated among readers":   at(grant(1, shared), token(101, grant(2, shared))),
		"smaller token":                  at(grant(1, exclusive), of(1, released), token(7, grant(2, exclusive))),
		"smaller token while waiting":    at(grant(1, shared), from(3, grant(2, shared)), token(7, grant(3, shared))),
		"trusted after its release":      at(grant(1, exclusive), of(1, released), of(1, trusted)),
		"resurrected":                    at(grant(1, exclusive), of(1, trusted), from(12, of(1, mayEnd)), grant(2, exclusive), of(2, released), of(1, trusted)),
		"trusted when another has it":    at(grant(1, exclusive), of(1, mayEnd), grant(2, exclusive), of(1, trusted)),
		"released twice":                 at(grant(1, exclusive), of(1, released), of(1, released)),
		"released and broken":            at(grant(1, exclusive), of(1, broke), from(12, of(1, released))),
		"broken after its release":       at(grant(1, exclusive), of(1, released), of(1, broke)),
		"not there, and held":            at(grant(1, exclusive), of(1, missed)),
		"refused by nobody":              at(grant(1, exclusive), of(1, released), no(exclusive)),
		"refused by a reader":            at(grant(1, shared), no(shared)),
		"refused while a slot is free":   at(grant(1, 3), grant(2, 3), no(3)),
		"refused by slots of its number": at(grant(1, 2), slotsHeld(2, 2)),
		"refused by other slots":         at(grant(1, 2), slotsHeld(3, 2)),
		"refused by slots of nobody":     at(grant(1, 2), of(1, released), slotsHeld(2, 3)),
		"writer after a downgrade":       at(grant(1, exclusive), lower(1, 2), grant(3, exclusive)),
		"reader refused after one":       at(grant(1, exclusive), lower(1, 2), no(shared)),
		"trusted after its downgrade":    at(grant(1, exclusive), lower(1, 2), of(1, trusted)),
		"downgraded after its release":   at(grant(1, exclusive), of(1, released), lower(1, 2)),
		"downgraded twice":               at(grant(1, exclusive), lower(1, 2), lower(1, 3)),
		"downgrade of a slot":            at(grant(1, 2), lower(1, 2)),
	} {
		t.Run(name, func(t *testing.T) {
			err := check(ops, true, patience)
			if err == nil || !strings.Contains(err.Error(), "not linearizable") || !strings.Contains(err.Error(), "none can be next") {
				t.Errorf("check = %v; want it to be refused, and why", err)
			}
			if err := check(ops[:len(ops)-1], true, patience); err != nil {
				t.Errorf("without the last operation: %v", err)
			}
		})
	}
	if err := check(at(grant(1, exclusive), of(1, released), token(101, grant(2, exclusive))), false, patience); err != nil {
		t.Errorf("without tokens: %v", err)
	}
}

// TestBroadHistory: the search copes with as many overlapping operations as a run has.
func TestBroadHistory(t *testing.T) {
	var ops []operation
	for i := 1; i <= 300; i++ {
		first := int64(max(1, 20*(i-7))) // waits for seven others
		ops = append(ops,
			operation{do: granted, lease: i, token: uint64(i), call: first, ret: int64(20*i + 2)},
			operation{do: trusted, lease: i, call: int64(20*i + 3), ret: int64(20*i + 4)},
			operation{do: mayEnd, lease: i, call: int64(20*i + 3), ret: int64(20*i + 4)})
	}
	if err := check(ops, true, patience); err != nil {
		t.Error(err)
	}
	ops[len(ops)-2].lease = 100 // trusted once more
	if err := check(ops, true, patience); err == nil || !strings.Contains(err.Error(), "not linearizable") {
		t.Errorf("a lease that comes back after 200 others: %v; want it to be refused", err)
	}
}

// TestSearchThatTakesTooLong: a search that does not end is not a success.
func TestSearchThatTakesTooLong(t *testing.T) {
	var ops []operation
	for i := 1; i <= 40; i++ {
		ops = append(ops, from(1, late(grant(i, shared))))
	}
	ops = append(ops, at(grant(41, exclusive), grant(42, exclusive))...)
	if err := check(ops, false, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "not found out") {
		t.Errorf("check = %.200v; want it to give up", err)
	}
}
