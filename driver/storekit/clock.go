// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// farOff is a difference between two clocks that says that one of them has no working time service.
const farOff = 10 * time.Second

// Clock returns the finding about a server's clock, which showed the time shows at some moment between before
// and after by our clock.
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
