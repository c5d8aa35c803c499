// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"flag"
	"runtime"
	"strconv"
)

// Parallel runs eight parallel tests for each processor, unless -parallel says how many. That suits
// tests that mostly wait for leases to end. With more tests, requests wait so long for each other that
// leases are lost. Call it in TestMain, after flag.Parse.
func Parallel() {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", strconv.Itoa(8*runtime.GOMAXPROCS(0)))
	}
}
