// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver"
)

// notice is what a waiter is told.
type notice struct {
	info       *pawl.Info    // nil if the store could not say
	ahead      int           // waiters before us; negative: not known
	quarantine time.Duration // for how long the store grants nothing

	tell   bool          // in any case
	failed error         // the store did not answer
	began  time.Time     // when it was asked
	away   time.Duration // for how long it has not answered
	back   time.Duration // for how long it had not, until now
	ends   time.Duration // after which the holder's lease ends, if that is not renewed any more
}

func (n notice) line(name string, store fmt.Stringer) string {
	s := fmt.Sprintf("pawl: waiting for %q", name)
	switch {
	case n.failed != nil:
		return s + ": " + n.silence(store)
	case n.back > 0:
		s += fmt.Sprintf(": %s answers again, after %v", store, display.InSeconds(n.back))
	}
	if n.info != nil && len(n.info.Holders) > 0 {
		s += ": " + display.HeldBy(n.info)
	}
	if n.ends > 0 {
		s += fmt.Sprintf("; its lease ends in %v unless it is renewed", display.InSeconds(n.ends))
	}
	if n.quarantine > 0 {
		return s + ": " + ClosedFor(n.quarantine) + " (see pawl bless --help)"
	}
	switch {
	case n.ahead == 0:
		s += "; you are next"
	case n.ahead > 0:
		s += fmt.Sprintf("; %d ahead of you", n.ahead)
	}
	return s
}

// silence says that the store does not answer.
func (n notice) silence(store fmt.Stringer) string {
	text := fmt.Sprintf("%s does not answer", store)
	if n.away > 0 {
		text += fmt.Sprintf(", for %v now", display.InSeconds(n.away))
	}
	if e := new(pawl.Error); errors.As(n.failed, &e) && !errors.Is(n.failed, context.DeadlineExceeded) {
		text += " (" + display.Shorten(strings.TrimPrefix(exit.Plain(e.Err), pawl.ErrUnavailable.Error()+": "), 200) + ")"
	}
	return text
}

// ClosedFor says that the store grants nothing for a while.
func ClosedFor(left time.Duration) string {
	return fmt.Sprintf("the server has just started or lost its data, and grants nothing for %v more",
		(left + time.Second - 1).Truncate(time.Second))
}

// place returns how many wait before the process pid of this host, or -1 if it is not in
// the queue.
func place(info *pawl.Info, pid int) int {
	for i, w := range info.Waiters {
		if w.PID == pid && w.Here() {
			return i
		}
	}
	return -1
}

// mine reports whether the process pid of this host has the lock by now: a slow disk shows the
// record of a lease before it confirms it.
func (n notice) mine(pid int) bool {
	return n.info != nil && slices.ContainsFunc(n.info.Holders, func(h driver.Held) bool { return h.PID == pid && h.Here() })
}

// pace is how long to wait until the next look. One look costs the store as much as there are waiters,
// and each of them looks.
func pace(n notice) time.Duration {
	d := time.Second
	if n.info != nil {
		d += time.Duration(len(n.info.Waiters)) * 20 * time.Millisecond
	}
	return d
}

// patience is how long waiting is nothing to talk about.
const patience = time.Second
