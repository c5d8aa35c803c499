// SPDX-License-Identifier: Apache-2.0

// Package waiting has the messages for a waiter: who holds the lock, whether the store answers, when the
// lock may become free.
package waiting

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
)

// Notice is a message for a waiter.
type Notice struct {
	Info       *pawl.Info    // nil if the store did not answer
	Ahead      int           // waiters before us; negative: not known
	Quarantine time.Duration // the store grants nothing for so long

	Tell   bool          // print the notice in any case
	Failed error         // the store did not answer
	Began  time.Time     // when we asked the store
	Away   time.Duration // the store has not answered for so long
	Back   time.Duration // the store answers again, after so long
	ends   time.Duration // the holder's lease is overdue, and ends after so long
}

func (n Notice) Line(name string, store fmt.Stringer) string {
	s := fmt.Sprintf("pawl: waiting for %q", name)
	switch {
	case n.Failed != nil:
		return s + ": " + n.Silence(store)
	case n.Back > 0:
		s += fmt.Sprintf(": %s answers again, after %v", store, display.InSeconds(n.Back))
	}
	if n.Info != nil && len(n.Info.Holders) > 0 {
		s += ": " + display.HeldBy(n.Info)
	}
	if n.ends > 0 {
		s += fmt.Sprintf("; its lease ends in %v unless it is renewed", display.InSeconds(n.ends))
	}
	if n.Quarantine > 0 {
		return s + ": " + ClosedFor(n.Quarantine) + " (see pawl bless --help)"
	}
	switch {
	case n.Ahead == 0:
		s += "; you are next"
	case n.Ahead > 0:
		s += fmt.Sprintf("; %d ahead of you", n.Ahead)
	}
	return s
}

// Silence returns a text which says that the store does not answer.
func (n Notice) Silence(store fmt.Stringer) string {
	text := fmt.Sprintf("%s does not answer", store)
	if n.Away > 0 {
		text += fmt.Sprintf("; silent for %v", display.InSeconds(n.Away))
	}
	if e := new(pawl.Error); errors.As(n.Failed, &e) && !errors.Is(n.Failed, context.DeadlineExceeded) {
		text += " (" + display.Shorten(strings.TrimPrefix(exit.Plain(e.Err), pawl.ErrUnavailable.Error()+": "), 200) + ")"
	}
	return text
}

// ClosedFor returns a text which says that the store is in quarantine.
func ClosedFor(left time.Duration) string {
	return fmt.Sprintf("the server has just started or lost its data, and grants nothing for another %v", display.InSeconds(left))
}

// Place returns how many waiters come before the process pid of this host, or -1 if the process is
// not in the queue.
func Place(info *pawl.Info, pid int) int {
	for i, w := range info.Waiters {
		if w.PID == pid && w.Here() {
			return i
		}
	}
	return -1
}

// Mine reports whether the process pid of this host already holds the lock. While a slow disk writes, a store may show
// the record of a lease before it confirms the lease.
func (n Notice) Mine(pid int) bool {
	return n.Info != nil && slices.ContainsFunc(n.Info.Holders, func(h pawl.Held) bool { return h.PID == pid && h.Here() })
}

// Pace returns the time until the next look. It grows with the queue, because every waiter looks, and each look reads
// the whole queue.
func (n Notice) Pace() time.Duration {
	d := time.Second
	if n.Info != nil {
		d += time.Duration(len(n.Info.Waiters)) * 20 * time.Millisecond
	}
	return d
}

// Patience is how long pawl waits for a lock before it says so.
const Patience = time.Second
