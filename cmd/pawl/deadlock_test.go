// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

// TestDeadlock: of two commands that each take the lock of the other inside their own, one
// fails and the other goes on. If both keep waiting, doctor sees them.
func TestDeadlock(t *testing.T) {
	w := newWorld(t)
	// crossing takes the second lock when there is a file of that name.
	crossing := func(first, second, flags string) *proc {
		p := w.sh(`exec $P run '` + first + `' -- sh -c 'touch "in ` + first + `"; until test -e "go ` + first +
			`"; do sleep 0.02; done; exec $P run ` + flags + ` "` + second + `" true'`)
		w.appears("in " + first)
		return p
	}
	waits := func(name, held string) {
		w.sh(`until $P show --json '` + name + `' | grep -q '"name": "` + held + `"'; do sleep 0.05; done`).end(0)
	}
	a, b := crossing("a lock", "b", "--wait-in-deadlock"), crossing("b", "a lock", "")
	w.create("go a lock")
	waits("b", "a lock")
	w.create("go b")
	b.end(exit.Busy)
	if got := b.stderr(); !strings.Contains(got, `pawl: busy: "a lock": deadlock: `) ||
		!strings.Contains(got, `holds "a lock" and waits for "b"; the caller holds "b"; take these locks in the same order`) {
		t.Errorf("stderr: %s", got)
	}
	a.end(0)
	w.remove("in a lock", "in b", "go a lock", "go b")

	a, b = crossing("a lock", "b", "--wait-in-deadlock"), crossing("b", "a lock", "--wait-in-deadlock")
	w.create("go a lock")
	w.create("go b")
	waits("b", "a lock")
	waits("a lock", "b")
	doctor := w.pawl("doctor")
	<-doctor.done
	if got := strings.Join(strings.Fields(doctor.stdout()), " "); !strings.Contains(got, `WARNING deadlock: `) ||
		!strings.Contains(got, ` waits for "b", which `) || !strings.Contains(got, ` waits for "a lock", which `) || !strings.Contains(got, "-> end one of these processes, or break its lease: pawl break 'a lock' --lease ") {
		t.Errorf("doctor: %s", got)
	}
	b.signal(syscall.SIGTERM)
	<-b.done
	a.end(0)
}
