// SPDX-License-Identifier: Apache-2.0

package memlock_test

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/memlock"
)

func harness(noExpiry bool, golden string) drivertest.Harness {
	return drivertest.Harness{
		Bubble: synctest.Test,
		Golden: golden,
		Start: func(testing.TB) drivertest.Store {
			s := &memlock.Store{NoExpiry: noExpiry}
			return drivertest.Store{
				Open:  func(testing.TB) driver.Driver { return s.Driver() },
				Crash: func(_ testing.TB, d driver.Driver) { s.Crash(d) },
			}
		},
	}
}

func TestConformance(t *testing.T) {
	drivertest.Run(t, harness(false, "testdata/conformance.txt"))
}

func TestConformanceNoExpiry(t *testing.T) {
	drivertest.Run(t, harness(true, "testdata/conformance-noexpiry.txt"))
}
