// SPDX-License-Identifier: Apache-2.0

package show

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

// TestOperationsWatch: docs/operations.md shows what watch prints.
func TestOperationsWatch(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(page), "    $ pawl watch deploy backup/\n")
	want, _, _ = strings.Cut(want, "\n\n")

	u, err := stores.Parse("redis://localhost:6379")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := &watching{App: &cli.App{Stdout: &out}, store: &stores.Store{URL: u}, past: history.New(0)}
	begin := time.Date(2026, 3, 9, 15, 28, 58, 0, time.Local)
	look := func(after time.Duration, l history.Look) {
		l.At = begin.Add(after)
		for _, c := range w.changes(&l, l.At) {
			if err := w.tell(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	seven, eight := pawl.Holder{User: "ci", Host: "ci-7", PID: 812, Command: "make deploy"}, pawl.Holder{User: "ci", Host: "ci-8", PID: 944, Command: "make deploy"}
	old := pawl.Held{Holder: seven, Lease: "7", Token: 41, Acquired: begin.Add(-12 * time.Second), Why: "release 7"}
	next := pawl.Held{Holder: eight, Lease: "8", Token: 42, Acquired: begin.Add(9 * time.Second), Why: "release 8"}
	waiter := pawl.Waiter{Holder: eight, Lease: "8", Since: begin.Add(-11 * time.Second), Why: "release 8"}
	look(0, history.Look{Infos: []*pawl.Info{{Name: "deploy", Holders: []pawl.Held{old}, Waiters: []pawl.Waiter{waiter}}}})
	look(9*time.Second, history.Look{Infos: []*pawl.Info{{Name: "deploy", Holders: []pawl.Held{next}}}})
	look(33*time.Second, history.Look{Err: context.DeadlineExceeded})
	if got := "    " + strings.ReplaceAll(strings.TrimSpace(out.String()), "\n", "\n    "); got != want {
		t.Errorf("watch prints\n%s\nthe page says\n%s", got, want)
	}
}
