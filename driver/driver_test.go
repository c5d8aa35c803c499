// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{
		"deploy", "a/b c", "..", "con", "日本語", "🔒", "e\u0301", strings.Repeat("x", driver.MaxName),
	} {
		if err := driver.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, c := range []struct{ name, hint string }{
		{"", "give the lock a name"},
		{strings.Repeat("x", 1<<20), "use at most 1024"},
		{"a\x00b", "U+0000"},
		{"a\nb", "U+000A"},
		{"a\x7fb", "U+007F"},
		{"a\xffb", "not valid UTF-8"},
	} {
		err := driver.CheckName(c.name)
		if err == nil || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%.10q: error is %v, want one with %q", c.name, err, c.hint)
		} else if len(err.Error()) > 300 {
			t.Errorf("%.10q: the error has %d bytes", c.name, len(err.Error()))
		}
	}
}

func TestErrorTexts(t *testing.T) {
	holder := driver.Holder{User: "alice", Host: "ci-7", PID: 812, Command: "terraform apply"}
	held := &driver.HeldError{Info: &driver.Info{Holders: []driver.Held{{
		Holder: holder, Token: 41, Why: "release 7", Acquired: time.Now().Add(-192 * time.Second),
	}}}}
	want := `held by alice@ci-7 (pid 812, "terraform apply") for 3m12s, token 41 (why: release 7)`
	if got := held.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	cause := errors.New("no route to host")
	for want, err := range map[string]error{
		`held by somebody else`: &driver.HeldError{},
		`held by somebody; that process has ended, what it started goes on and holds it`: &driver.HeldError{
			Info: &driver.Info{Holders: []driver.Held{{Orphan: true}}}},
		`held by somebody; that lease has ended, and an open transaction that it guards keeps the name: server process 7 ("billing")`: &driver.HeldError{
			Info: &driver.Info{Holders: []driver.Held{{Transaction: &driver.Transaction{PID: 7, Application: "billing"}}}}},
		`held by somebody; that lease has ended, and an open transaction that it guards keeps the name: it is prepared, and no process has it`: &driver.HeldError{
			Info: &driver.Info{Holders: []driver.Held{{Transaction: &driver.Transaction{}}}}},
		`lease lost: broken by bob@laptop: "runner died"`: &driver.LostError{
			Reason: driver.Broken, By: &driver.Holder{User: "bob", Host: "laptop"}, Why: "runner died"},
		`lease lost: it was not renewed in time (last renewal: no route to host)`: &driver.LostError{
			Reason: driver.Expired, Err: cause},
		`lease lost: it was not renewed in time: this process did not run for 12s or more`: &driver.LostError{
			Reason: driver.Expired, Paused: 12 * time.Second},
		`lease lost: it was held for as long as MaxHold allows`: &driver.LostError{Reason: driver.Limit},
		`lease lost: the store no longer has it`:                &driver.LostError{Reason: driver.Gone},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if errors.Is(&driver.LostError{Err: cause}, cause) || !errors.Is(&driver.LostError{}, driver.ErrLost) {
		t.Error("a LostError must be ErrLost, and not its cause")
	}
	for want, h := range map[string]driver.Holder{
		"somebody":           {},
		"ci job 7 (pid 3)":   {Who: "ci job 7", User: "root", Host: "h", PID: 3},
		"h (pid 3)":          {Host: "h", PID: 3},
		`alice@h ("make x")`: {User: "alice", Host: "h", Command: "make x"},
	} {
		if got := h.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestMissingGuarantees(t *testing.T) {
	all := driver.Guarantees{Fencing: true, FIFO: true, CrossHost: true, Expiry: true, SurvivesRestart: true}
	if m := all.Missing(all); m != nil {
		t.Errorf("missing %v", m)
	}
	if m := (driver.Guarantees{}).Missing(all); len(m) != 5 {
		t.Errorf("missing %v, want all five", m)
	}
}
