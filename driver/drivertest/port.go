// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// FreeAddr returns an address on this machine for a server that the test starts, and
// starts again. No other test gets it before this one has ended, in whatever process, and
// no connection takes it by chance; see servers.Hold.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, release, err := servers.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return addr
}
