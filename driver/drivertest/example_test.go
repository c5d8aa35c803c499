// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// In a store's test file: a server whose participants can be cut off.
func Example() {
	_ = func(t *testing.T) { // func TestWire(t *testing.T)
		var server string                       // the address of one that the test has started
		var open func(addr string) driver.Store // of your store
		service := drivertest.OverLinks(server, func(_ testing.TB, addr string) driver.Store { return open(addr) })
		wiretest.Run(t, wiretest.Harness{
			Start: func(testing.TB) wiretest.Service { return service },
		})
	}
	// Output:
}
