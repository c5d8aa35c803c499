// SPDX-License-Identifier: Apache-2.0

package storekit_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

func TestClock(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		ahead, trip time.Duration
		level       driver.Level
		want        string
	}{
		{0, 400 * time.Microsecond, driver.Fine, "its clock shows what ours shows, within 1ms"},
		{40 * time.Millisecond, 100 * time.Millisecond, driver.Fine, "its clock shows what ours shows, within 50ms"},
		{time.Second, 2 * time.Millisecond, driver.Fine, "its clock is 1s ahead of ours"},
		{-time.Second, 2 * time.Millisecond, driver.Fine, "its clock is 1s behind ours"},
		{9 * time.Second, 0, driver.Fine, "its clock is 9s ahead of ours"},
		{-time.Hour, 0, driver.Warning, "its clock is 1h0m0s behind ours; a time service that sets it right in one step ends leases early"},
	} {
		got := storekit.Clock("host", now.Add(c.trip/2+c.ahead), now, now.Add(c.trip))
		if got.Text != c.want || got.Level != c.level || got.Check != "clock" || got.Server != "host" || (got.Do == "") != (c.level == driver.Fine) {
			t.Errorf("ahead by %v: %+v, want %v %q", c.ahead, got, c.level, c.want)
		}
	}
}
