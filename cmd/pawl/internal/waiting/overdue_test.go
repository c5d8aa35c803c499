// SPDX-License-Identifier: Apache-2.0

//go:build linux

package waiting

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// TestOverdue: a waiter is told once when a lease ends that is not renewed any more, and nothing of one
// that is.
func TestOverdue(t *testing.T) {
	const ttl = 30 * time.Second
	begin := time.Now()
	type look struct {
		at, until time.Duration // both after the begin
		lease     string
		tell      bool
		left      time.Duration
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := pawl.Holder{Host: "another", PID: 1}
	for name, looks := range map[string][]look{
		"renewed at each third": {{0, 21 * time.Second, "a", false, 0}, {time.Second, ttl, "a", false, 0}, {10 * time.Second, ttl, "a", false, 0},
			{11 * time.Second, 40 * time.Second, "a", false, 0}, {20 * time.Second, 40 * time.Second, "a", false, 0}, {21 * time.Second, 50 * time.Second, "a", false, 0}},
		"not renewed": {{0, ttl, "a", false, 0}, {14 * time.Second, ttl, "a", false, 0}, {15 * time.Second, ttl, "a", true, 15 * time.Second},
			{16 * time.Second, ttl, "a", false, 14 * time.Second}, {31 * time.Second, ttl, "a", false, 0}},
		"in whole seconds":                       {{0, ttl, "a", false, 0}, {8 * time.Second, 31 * time.Second, "a", false, 0}, {15 * time.Second, ttl, "a", true, 15 * time.Second}},
		"renewed after all":                      {{0, ttl, "a", false, 0}, {15 * time.Second, ttl, "a", true, 15 * time.Second}, {16 * time.Second, 46 * time.Second, "a", false, 0}, {31 * time.Second, 46 * time.Second, "a", true, 15 * time.Second}},
		"followed by another":                    {{0, ttl, "a", false, 0}, {15 * time.Second, ttl, "a", true, 15 * time.Second}, {16 * time.Second, ttl, "b", false, 0}, {24 * time.Second, ttl, "b", true, 6 * time.Second}},
		"renewed, of a process that is not seen": {{0, ttl, "gone", true, ttl}, {10 * time.Second, 40 * time.Second, "gone", false, 0}, {20 * time.Second, 50 * time.Second, "gone", false, 0}},
		"without end, as a file":                 {{0, 0, "a", false, 0}, {time.Hour, 0, "a", false, 0}},
	} {
		var o Outage
		for _, l := range looks {
			h := pawl.Held{Holder: elsewhere, Lease: l.lease}
			if l.lease == "gone" {
				h.Holder = pawl.Holder{Host: host, PID: 1 << 30, Space: driver.PIDSpace()}
			}
			if l.until != 0 {
				h.Expires = begin.Add(l.until)
			}
			n := Notice{Info: &pawl.Info{Holders: []pawl.Held{h}}}
			if tell := o.Told(&n, begin.Add(l.at)); tell != l.tell || n.ends != l.left {
				t.Errorf("%s, after %v: told = %v, it ends in %v; want %v and %v", name, l.at, tell, n.ends, l.tell, l.left)
			}
		}
	}
}

// TestGoneElsewhere: nothing is concluded of a process in another PID namespace, nor of one whose namespace is not
// known where there are such.
func TestGoneElsewhere(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	h := pawl.Holder{Host: host, PID: dead.Process.Pid, Space: driver.PIDSpace()}
	if !Gone(h) {
		t.Errorf("%v lives", h)
	}
	there := h
	there.Space += "0"
	if Gone(there) || !strings.Contains(there.String(), " of another container") {
		t.Errorf("%v is gone, and the text is of here", there)
	}
	there.Space = "00000000-" + there.Space
	if Gone(there) || !strings.Contains(there.String(), " of another machine or boot") {
		t.Errorf("%v is gone, and the text is of here", there)
	}
	if there.Space = ""; Gone(there) != (driver.PIDSpace() == "") {
		t.Errorf("%v, of an unknown namespace, is gone", there)
	}
	waits := pawl.Waiter{Holder: h}
	waits.Space += "0"
	if n := Place(&pawl.Info{Waiters: []pawl.Waiter{waits}}, h.PID); n >= 0 {
		t.Errorf("the waiter of another container is taken for this one, at place %d", n)
	}
}
