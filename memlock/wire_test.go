// SPDX-License-Identifier: Apache-2.0

package memlock_test

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
	"github.com/pawl-go/pawl/memlock"
)

func TestWire(t *testing.T) {
	for golden, noExpiry := range map[string]bool{"testdata/wire.txt": false, "testdata/wire-noexpiry.txt": true} {
		wiretest.Run(t, wiretest.Harness{
			Bubble: synctest.Test,
			Golden: golden,
			Start: func(testing.TB) wiretest.Service {
				s := &memlock.Store{NoExpiry: noExpiry}
				return wiretest.Service{
					Open:  func(testing.TB) driver.Store { return s.Participant() },
					Crash: func(_ testing.TB, p driver.Store) { s.Crash(p) },
				}
			},
		})
	}
}
