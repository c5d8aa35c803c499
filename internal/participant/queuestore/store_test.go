// SPDX-License-Identifier: Apache-2.0

package queuestore_test

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
	"github.com/pawl-go/pawl/internal/participant/queuestore"
)

func TestWire(t *testing.T) {
	wiretest.Run(t, wiretest.Harness{
		Bubble: synctest.Test, // fake time, as the server is in this process
		Start: func(testing.TB) wiretest.Service {
			s := new(queuestore.Server)
			return wiretest.Service{Open: func(testing.TB) driver.Store { return s.Open() }}
		},
	})
}
