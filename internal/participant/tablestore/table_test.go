// SPDX-License-Identifier: Apache-2.0

package tablestore_test

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
	"github.com/pawl-go/pawl/internal/participant/tablestore"
)

func TestWire(t *testing.T) {
	wiretest.Run(t, wiretest.Harness{
		Bubble: synctest.Test,
		Start: func(testing.TB) wiretest.Service {
			table := new(tablestore.Table)
			return wiretest.Service{Open: func(testing.TB) driver.Store { return table.Participant() }}
		},
	})
}
