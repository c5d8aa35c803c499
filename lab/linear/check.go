// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// never is the time of return for an operation whose answer was lost, or whose end nobody saw.
const never = math.MaxInt64

// model describes the store to porcupine, which compares states by ==.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, o, _ any) (bool, any) {
		ok, next := s.(state).step(o.(operation))
		return ok, next
	},
}

// check returns nil if the model allows some order of ops in which each operation takes
// effect at one moment between its call and its return. If the search takes longer than
// patience, check returns an error.
//
// If the store has tokens, the order of the tokens is the order of the grants. That leaves few
// orders to search.
func check(ops []operation, fencing bool, patience time.Duration) error {
	var tokens []uint64
	for _, o := range ops {
		if o.do == granted || o.do == downgraded {
			tokens = append(tokens, o.token)
		}
	}
	slices.Sort(tokens)
	history := make([]porcupine.Operation, len(ops))
	for i, o := range ops {
		o.rank = -1
		if fencing {
			o.rank, _ = slices.BinarySearch(tokens, o.token)
		}
		history[i] = porcupine.Operation{ClientId: o.worker, Input: o, Call: o.call, Return: o.ret}
	}
	switch porcupine.CheckOperationsTimeout(model, history, patience) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("whether the history is linearizable was not found out in %v, for %d operations", patience, len(ops))
	}
	return fmt.Errorf("the history is not linearizable:\n%s", explain(history, patience))
}

// explain shows the end of the longest order that porcupine found, the state after it, and
// the operations that cannot follow.
func explain(history []porcupine.Operation, patience time.Duration) string {
	_, info := porcupine.CheckOperationsVerbose(model, history, patience)
	var best []porcupine.Operation
	for _, p := range info.PartialLinearizationsOperations() {
		for _, order := range p {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	const shown = 15
	var b strings.Builder
	var s state
	done := make(map[operation]bool)
	for i, o := range best {
		op := o.Input.(operation)
		_, s = s.step(op)
		done[op] = true
		if i >= len(best)-shown {
			fmt.Fprintf(&b, "    %v\n", op)
		}
	}
	left := slices.DeleteFunc(slices.Clone(history), func(o porcupine.Operation) bool { return done[o.Input.(operation)] })
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	fmt.Fprintf(&b, "  then it is %v, and of these none can be next, or leads on:\n", s)
	for i, o := range left {
		if op := o.Input.(operation); i < shown || s.has(op.lease) {
			fmt.Fprintf(&b, "    %v\n", op)
		}
	}
	return b.String()
}
