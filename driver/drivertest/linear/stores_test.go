// SPDX-License-Identifier: Apache-2.0

package linear_test

import (
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/linear"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
	"github.com/pawl-go/pawl/filelock"
	"github.com/pawl-go/pawl/memlock"
)

// The stores of the root module are run here, as that must not depend on porcupine.

func TestMemlock(t *testing.T) {
	linear.Run(t, wiretest.Harness{Start: func(testing.TB) wiretest.Service {
		s := new(memlock.Store)
		return wiretest.Service{Open: func(testing.TB) driver.Store { return s.Participant() }}
	}})
}

func TestFilelock(t *testing.T) {
	linear.Run(t, wiretest.Harness{Start: func(t testing.TB) wiretest.Service {
		dir := t.TempDir()
		return wiretest.Service{Open: func(t testing.TB) driver.Store {
			d, err := filelock.NewStore(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}}
	}})
}
