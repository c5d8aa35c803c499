// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"runtime"
	"strings"
)

// Running returns how many goroutines are in a function, such as conn.(*Subscription).Keep, named as in
// their stacks. A TestMain uses it to find participants that no test has closed. Such a participant dials
// again and again, and may reach the server of a later test at the same address. There it reports that
// the store has changed, which begins a quarantine.
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
