// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// What a store answers while somebody else has the name. Whoever asked can test for ErrHeld,
// and read by whom.
func ExampleHeldError() {
	var err error = &driver.HeldError{Info: &driver.Info{Name: "deploy", Token: 7, Holders: []driver.Held{{
		Holder: driver.Holder{User: "alice", Host: "ci-7", PID: 812}, Lease: "k2v…", Token: 7, Why: "release 7",
	}}}}
	fmt.Println(errors.Is(err, driver.ErrHeld))
	fmt.Println(err)
	// Output:
	// true
	// held by alice@ci-7 (pid 812), token 7 (why: release 7)
}
