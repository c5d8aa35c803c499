// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"flag"
	"runtime"
	"strconv"
)

// Parallel lets as many parallel tests run at a time as suits tests that mostly wait for leases
// to end: eight for each processor, unless -parallel says how many. With more, requests wait for
// each other so long that leases are lost. TestMain calls it after flag.Parse.
func Parallel() {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", strconv.Itoa(8*runtime.GOMAXPROCS(0)))
	}
}
