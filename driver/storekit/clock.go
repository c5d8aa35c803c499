// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// farOff is how far two clocks are apart only if one of them is not kept right.
const farOff = 10 * time.Second

// Clock is the finding that a server's clock showed a time when ours showed what lies between
// two others.
func Clock(server string, shows, before, after time.Time) driver.Finding {
	unsure := after.Sub(before) / 2
	ahead := shows.Sub(before.Add(unsure))
	f := driver.Finding{Check: "clock", Server: server}
	switch by := driver.ForPeople(ahead.Abs()); {
	case ahead.Abs() <= unsure+time.Millisecond:
		f.Text = fmt.Sprintf("its clock shows what ours shows, within %v", max(driver.ForPeople(unsure), time.Millisecond))
	case ahead > 0:
		f.Text = fmt.Sprintf("its clock is %v ahead of ours", by)
	default:
		f.Text = fmt.Sprintf("its clock is %v behind ours", by)
	}
	if ahead.Abs() > farOff+unsure {
		f.Level = driver.Warning
		f.Text += "; a time service that sets it right in one step ends leases early"
		f.Do = "see which of the two clocks is wrong, and let its time service slew it: chronyc tracking"
	}
	return f
}
