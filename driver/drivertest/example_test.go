// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/memlock"
)

// A store's test runs the whole suite. What the store does not have is skipped, by name.
func Example() {
	_ = func(t *testing.T) {
		store := new(memlock.Store)
		drivertest.Run(t, drivertest.Harness{
			TTL: time.Second,
			Start: func(testing.TB) drivertest.Store {
				return drivertest.Store{Open: func(testing.TB) driver.Driver { return store.Driver() }}
			},
		})
	}
}
