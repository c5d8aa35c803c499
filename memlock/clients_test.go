// SPDX-License-Identifier: Apache-2.0

package memlock_test

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
	"github.com/pawl-go/pawl/memlock"
)

func TestClients(t *testing.T) {
	var s *memlock.Store
	wiretest.RunClients(t, wiretest.Clients{
		Bubble: func(t *testing.T, f func(*testing.T)) {
			s = new(memlock.Store)
			synctest.Test(t, f)
		},
		Open: func(t testing.TB) *pawl.Client {
			c, err := s.Open(nil)
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
	})
}
