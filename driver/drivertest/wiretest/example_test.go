// SPDX-License-Identifier: Apache-2.0

package wiretest_test

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// In a store's test file.
func Example() {
	_ = func(t *testing.T) { // func TestWire(t *testing.T)
		wiretest.Run(t, wiretest.Harness{
			Bubble: synctest.Test, // fake time, as this service is in this process
			Start: func(testing.TB) wiretest.Service {
				var open func() driver.Store // of your store
				return wiretest.Service{Open: func(testing.TB) driver.Store { return open() }}
			},
		})
	}
	// Output:
}
