// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// What the server says, and what follows from it. The server itself is in the tests of cmd/pawl.
func TestExamine(t *testing.T) {
	durable, synchronous, async := &store{mode: Durable}, &store{mode: Synchronous}, &store{mode: Async}
	for _, c := range []struct {
		name  string
		found driver.Finding
		level driver.Level
	}{
		{"a primary", durable.role(false, ""), driver.Fine},
		{"a standby", durable.role(true, ""), driver.Problem},
		{"no standby to wait for", synchronous.role(false, ""), driver.Problem},
		{"a standby to wait for", synchronous.role(false, "*"), driver.Fine},
		{"on disk", durable.persistence(true, true), driver.Fine},
		{"fsync is off", durable.persistence(false, true), driver.Problem},
		{"fsync is off, but for standbys", synchronous.persistence(false, true), driver.Problem},
		{"fsync is off, and nobody relies on it", async.persistence(false, false), driver.Fine},
		{"half pages", durable.persistence(true, false), driver.Warning},
		{"few connections", durable.connections(9, 100), driver.Fine},
		{"many connections", durable.connections(99, 100), driver.Warning},
	} {
		if f := c.found; f.Level != c.level || f.Text == "" || (f.Do == "") != (c.level == driver.Fine) {
			t.Errorf("%s: %+v, want %v", c.name, f, c.level)
		}
	}
}
