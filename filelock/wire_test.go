// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

func TestWire(t *testing.T) {
	t.Parallel()
	wiretest.Run(t, wiretest.Harness{
		Start: func(t testing.TB) wiretest.Service {
			dir := t.TempDir()
			return wiretest.Service{
				Open:  func(testing.TB) driver.Store { return &store{dir: dir} },
				Crash: func(_ testing.TB, s driver.Store) { s.(*store).crash() },
				Left:  func(t testing.TB, prefix string) []string { return left(t, dir, prefix) },
			}
		},
		Parallel: true,
	})
}

// TestClients runs real clients on a directory.
func TestClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wiretest.RunClients(t, wiretest.Clients{
		Open: func(t testing.TB) *pawl.Client {
			c, err := Open(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
	})
}
