// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/driver"
)

// deadlocks reports deadlocks. It lists the locks once more, and reports only deadlocks in both lists.
func (d *doctor) deadlocks(ctx context.Context, infos []*pawl.Info) {
	if len(pawl.Deadlocks(infos, infos)) == 0 {
		return
	}
	again, _ := d.store.List(ctx, "")
	for i, cycle := range pawl.Deadlocks(infos, again) {
		if i == mostLocks {
			d.tell(driver.Finding{Check: "deadlock", Level: driver.Warning, Text: "there are more deadlocks"})
			return
		}
		var waits []string
		for _, b := range cycle {
			waits = append(waits, fmt.Sprintf("%v waits for %q, which %v holds", b.Waiter.Holder, b.Name, b.By.Holder))
		}
		first := cycle[0]
		d.tellOf(first.Name, driver.Finding{Check: "deadlock", Level: driver.Warning,
			Text: "deadlock: " + strings.Join(waits, "; "),
			Do:   fmt.Sprintf("end one of these processes, or break its lease: pawl break %s --lease %s --why TEXT; then take the locks in the same order everywhere", display.Quote(first.Name), first.By.Lease)})
	}
}

// lookTimes is how often changing lists the locks.
const lookTimes = history.Often + 2

// changing reports locks that change hands often, in a few looks. The finding is not a warning, because
// locks of short jobs change hands often too.
func (d *doctor) changing(ctx context.Context, infos []*pawl.Info) {
	if !slices.ContainsFunc(infos, func(info *pawl.Info) bool { return len(info.Holders) > 0 }) {
		return
	}
	var seen history.Store
	past := history.New(0)
	for look := range lookTimes {
		past.Take(&seen, &history.Look{At: time.Now(), Infos: infos})
		if look == 1 && !seen.Changed() {
			return
		}
		if look < lookTimes-1 {
			began := time.Now()
			time.Sleep(history.Every)
			if infos, _ = d.store.List(ctx, ""); time.Since(began) > 2*history.Every {
				return // do not repeat a list that takes so long
			}
		}
	}
	often := seen.Changing()
	for _, name := range history.Sorted(often) {
		d.tellOf(name, driver.Finding{Check: "changes hands", Text: fmt.Sprintf("%q changes hands often: %d leases in %d looks; if it is a leader or a long job, see: pawl watch %s%s",
			name, often[name], lookTimes-1, display.Quote(name), d.store.Flag)})
	}
}
