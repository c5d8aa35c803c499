// SPDX-License-Identifier: Apache-2.0

package linear_test

import (
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/linear"
	"github.com/pawl-go/pawl/filelock"
	"github.com/pawl-go/pawl/memlock"
)

// The stores of the root module are run here, as that must not depend on porcupine.

func TestMemlock(t *testing.T) {
	linear.Run(t, drivertest.Harness{Start: func(testing.TB) drivertest.Store {
		s := new(memlock.Store)
		return drivertest.Store{Open: func(testing.TB) driver.Driver { return s.Driver() }}
	}})
}

func TestFilelock(t *testing.T) {
	linear.Run(t, drivertest.Harness{Start: func(t testing.TB) drivertest.Store {
		dir := t.TempDir()
		return drivertest.Store{Open: func(t testing.TB) driver.Driver {
			d, err := filelock.NewDriver(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}}
	}})
}
