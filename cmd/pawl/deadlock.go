// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/driver"
)

// deadlocks tells of circles of waiters. The locks were not all listed at the same time: a circle
// that is still there when they are listed again was there in between.
func (d *doctor) deadlocks(ctx context.Context, infos []*pawl.Info) {
	before := pawl.Deadlocks(infos)
	if len(before) == 0 {
		return
	}
	infos, _ = d.store.List(ctx, "")
	same := func(a, b pawl.Blocked) bool {
		return a.Name == b.Name && a.By.Lease == b.By.Lease && a.Waiter.Lease != "" && a.Waiter.Lease == b.Waiter.Lease
	}
	told := 0
	for _, circle := range pawl.Deadlocks(infos) {
		if !slices.ContainsFunc(before, func(other []pawl.Blocked) bool { return slices.EqualFunc(circle, other, same) }) {
			continue
		}
		if told++; told > mostLocks {
			d.tell(driver.Finding{Check: "deadlock", Level: driver.Warning, Text: "there are more deadlocks"})
			return
		}
		d.tellOf(circle[0].Name, deadlockFinding(circle))
	}
}

func deadlockFinding(circle []pawl.Blocked) driver.Finding {
	var waits []string
	for _, b := range circle {
		waits = append(waits, fmt.Sprintf("%v waits for %q, which %v holds", b.Waiter.Holder, b.Name, b.By.Holder))
	}
	first := circle[0]
	return driver.Finding{Check: "deadlock", Level: driver.Warning,
		Text: "these wait for each other, for ever: " + strings.Join(waits, "; "),
		Do:   fmt.Sprintf("end one of them, or its lock: pawl break %s --lease %s --why TEXT; and let all take the locks in one order", shellQuote(first.Name), first.By.Lease)}
}

// lookTimes is how often the doctor looks at locks that change hands.
const lookTimes = history.Often + 2

// changing tells of locks that change hands in each of a few looks. That is no warning: of a lock of
// short jobs it is the use.
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
				return // a list that takes so long is not made again and again
			}
		}
	}
	often := seen.Changing()
	for _, name := range history.Sorted(often) {
		d.tellOf(name, driver.Finding{Check: "changes hands", Text: fmt.Sprintf("%q changes hands often: %d leases in %d looks; if it is a leader or a long job, see: pawl watch %s%s",
			name, often[name], lookTimes-1, shellQuote(name), d.store.flag)})
	}
}
