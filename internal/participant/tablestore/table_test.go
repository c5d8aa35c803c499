// SPDX-License-Identifier: Apache-2.0

package tablestore_test

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/internal/participant/tablestore"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Bubble: synctest.Test, // fake time, as the table is in this process
		Golden: "testdata/conformance.txt",
		Start: func(testing.TB) drivertest.Store {
			table := new(tablestore.Table)
			return drivertest.Store{Open: func(testing.TB) driver.Driver { return table.Driver() }}
		},
	})
}

func TestWire(t *testing.T) {
	wiretest.Run(t, wiretest.Harness{
		Bubble: synctest.Test,
		Start: func(testing.TB) wiretest.Service {
			table := new(tablestore.Table)
			return wiretest.Service{Open: func(testing.TB) driver.Store { return table.Driver().(*participant.Participant).Store() }}
		},
	})
}
