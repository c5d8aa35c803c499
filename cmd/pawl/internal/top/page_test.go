// SPDX-License-Identifier: Apache-2.0

package top

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
)

// TestOperationsTop: docs/operations.md shows what top draws.
func TestOperationsTop(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(page), "    $ pawl top --store redis://cache:6379\n")
	want, _, _ = strings.Cut(want, "\n\n")

	now := time.Date(2026, 3, 9, 15, 29, 2, 0, time.Local)
	held := func(user, host, why string, ago time.Duration) pawl.Held {
		return pawl.Held{Holder: pawl.Holder{User: user, Host: host, PID: 1}, Lease: host, Acquired: now.Add(-ago), Expires: now.Add(20 * time.Second), Why: why}
	}
	waits := func(user, host, name, lease string, ago time.Duration) []pawl.Waiter {
		w := pawl.Waiter{Holder: pawl.Holder{User: user, Host: host, PID: 2}, Lease: "w-" + host, Since: now.Add(-ago)}
		if name != "" {
			w.Holds = []pawl.Hold{{Name: name, Lease: lease}}
		}
		return []pawl.Waiter{w}
	}
	slot := held("ml", "gpu-1", "run 118", 118*time.Second)
	slot.Slots = 3
	second := slot
	second.Lease = "another"
	infos := []*pawl.Info{
		{Name: "deploy/web", Holders: []pawl.Held{held("ci", "ci-9", "release 9", 22*time.Second)}, Waiters: waits("ci", "ci-8", "", "", 12*time.Second)},
		{Name: "gpu", Holders: []pawl.Held{slot, second}},
		{Name: "import/feed", Holders: []pawl.Held{held("app", "app-4", "", 35*time.Second)}},
		{Name: "invoice", Holders: []pawl.Held{held("app", "app-2", "", 250*time.Second)}, Waiters: waits("app", "app-1", "stock", "app-1", 247*time.Second)},
		{Name: "ledger/close", Holders: []pawl.Held{held("alice", "laptop", "fixing March by hand", 75*time.Hour)},
			Waiters: append(waits("ci", "ci-8", "", "", 83*time.Minute), waits("ci", "ci-9", "", "", time.Minute)...)},
		{Name: "stock", Holders: []pawl.Held{held("app", "app-1", "", 250*time.Second)}, Waiters: waits("app", "app-2", "invoice", "app-2", 248*time.Second)},
	}
	top := &top{App: new(cli.App), past: history.New(0), order: "first", plain: true}
	top.stores = []*topStore{{Store: history.Store{Name: "redis://cache:6379"}}}
	for _, at := range []time.Duration{-16, -1} { // seconds
		top.take(top.stores[0], &history.Look{At: now.Add(at * time.Second), Infos: infos})
		infos[2].Holders[0].Expires = now.Add(time.Second)
	}
	drawn := slices.DeleteFunc(drawnTop(t, top, now, 80, 24), func(line string) bool { return line == "" })
	if got := "    " + strings.Join(drawn, "\n    "); got != want {
		t.Errorf("top draws\n%s\nthe page says\n%s", got, want)
	}
}
