// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"runtime"
	"strings"
)

// Running returns how many goroutines are in a function, which is given as in their stacks, such
// as conn.(*Subscription).Keep. A TestMain finds with it the participants that no test has
// closed: they dial again and again, and come to whatever server has the address next, of
// whatever test. There they report that the store has changed, and it is closed.
func Running(function string) int {
	stacks := make([]byte, 1<<20)
	for {
		n := runtime.Stack(stacks, true)
		if n < len(stacks) {
			return strings.Count(string(stacks[:n]), function+"(")
		}
		stacks = make([]byte, 2*len(stacks))
	}
}
