// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"

	"github.com/pawl-go/pawl/lab/sim"
)

// The stories that simulate tells, each with the protection and without.
func Example() {
	for _, s := range sim.Scenarios()[:2] {
		fmt.Printf("%s: %s\n", s.Name, s.Title)
	}
	// Output:
	// restart: A node crashes, comes back empty, and votes a second time
	// failover: The only master fails, and its replica has never heard of the lock
}
